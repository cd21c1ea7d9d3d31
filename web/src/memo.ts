// Parts of the page that are drawn again only if what they show has changed: most of a large plan has not, ten times a second.

import { Component, type ComponentChild, type ComponentType } from "preact";

/** A component that is drawn anew if one of the values that it depends on differs. */
export function memo<P extends object>(view: (props: P) => ComponentChild, depends: (props: P) => readonly unknown[]): ComponentType<P> {
  return class extends Component<P> {
    override shouldComponentUpdate(next: P): boolean {
      const [before, after] = [depends(this.props), depends(next)];
      return before.length !== after.length || before.some((value, i) => value !== after[i]);
    }

    override render(): ComponentChild {
      return view(this.props);
    }
  };
}
