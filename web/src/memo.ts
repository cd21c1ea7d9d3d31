// Parts of the page that are drawn again only if what they show has changed and can be seen: of a large plan that is
// little, ten times a second.

import { Component, type ComponentChild, type ComponentType } from "preact";

const MARGIN = "200px"; // around the window, so that what is scrolled into sight is there already

interface Seen {
  inSight: boolean;
  stale: boolean;
  forceUpdate(): void;
}

const watched = new WeakMap<Element, Seen>();
let observer: IntersectionObserver | null = null;

function watch(element: Element, part: Seen): void {
  observer ??= new IntersectionObserver(
    (entries) => {
      for (const e of entries) {
        const found = watched.get(e.target);
        if (!found) continue;
        found.inSight = e.isIntersecting;
        if (found.inSight && found.stale) found.forceUpdate();
      }
    },
    { rootMargin: MARGIN },
  );
  watched.set(element, part);
  observer.observe(element);
}

/** A component that is drawn anew if one of the values that it depends on differs. `place` are those that move or mark it,
 * which count also while it is out of sight; all others are caught up with when it comes into sight. */
export function memo<P extends object>(view: (props: P) => ComponentChild, depends: (props: P) => readonly unknown[], place: (props: P) => readonly unknown[]): ComponentType<P> {
  return class extends Component<P> implements Seen {
    inSight = true; // until the browser has said otherwise
    stale = false;
    private element: Element | null = null;

    override componentDidMount(): void {
      this.follow();
    }

    override componentDidUpdate(): void {
      this.follow();
    }

    override componentWillUnmount(): void {
      if (this.element) observer?.unobserve(this.element);
    }

    override shouldComponentUpdate(next: P): boolean {
      if (differ(place(this.props), place(next))) return true;
      this.stale ||= differ(depends(this.props), depends(next));
      return this.stale && this.inSight;
    }

    override render(): ComponentChild {
      this.stale = false;
      return view(this.props);
    }

    /** The element may be another one, or none, than at the last drawing. */
    private follow(): void {
      const element = this.base instanceof Element ? this.base : null;
      if (element === this.element) return;
      if (this.element) observer?.unobserve(this.element);
      this.element = element;
      this.inSight = true;
      if (element) watch(element, this);
    }
  };
}

const differ = (before: readonly unknown[], after: readonly unknown[]): boolean => before.length !== after.length || before.some((value, i) => value !== after[i]);
