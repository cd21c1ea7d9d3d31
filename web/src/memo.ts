// Parts of the page that are drawn again only if what they show has changed and can be seen: of a large plan that is
// little, ten times a second.

import { Component, type ComponentChild, type ComponentType } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";

const MARGIN = 200; // pixels around the window, so that what is scrolled into sight is there already

/** A component that is drawn anew if one of the values that it depends on differs. `place` are those that move or mark it,
 * which count also while it is out of sight; all others are caught up with when it comes into sight. */
export function memo<P extends { inSight: boolean }>(view: (props: P) => ComponentChild, depends: (props: P) => readonly unknown[], place: (props: P) => readonly unknown[]): ComponentType<P> {
  return class extends Component<P> {
    private stale = false;

    override shouldComponentUpdate(next: P): boolean {
      if (differ(place(this.props), place(next))) return true;
      this.stale ||= differ(depends(this.props), depends(next));
      return this.stale && next.inSight;
    }

    override render(): ComponentChild {
      this.stale = false;
      return view(this.props);
    }
  };
}

const differ = (before: readonly unknown[], after: readonly unknown[]): boolean => before.length !== after.length || before.some((value, i) => value !== after[i]);

/** Whether an element is in the window or near it. Browsers look at each such element in each frame: have few. */
export function useInSight<E extends Element>(): [{ current: E | null }, boolean] {
  const element = useRef<E>(null);
  const [inSight, set] = useState(true); // until the browser has said otherwise
  useEffect(() => {
    const observer = new IntersectionObserver((entries) => set(entries[entries.length - 1]!.isIntersecting), { rootMargin: `${MARGIN}px` });
    observer.observe(element.current!);
    return () => observer.disconnect();
  }, []);
  return [element, inSight];
}

/** A part of a drawing, in its own units. */
export interface Sight {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

const ALL: Sight = { left: -Infinity, top: -Infinity, right: Infinity, bottom: Infinity };
const STEP = 100; // of a part's borders: it changes only with every so many units

/** The part of a drawing, `width` units wide, that is in sight or near it: of the window, and of the frame that scrolls it. */
export function useSight(frame: { current: HTMLElement | null }, width: number): Sight {
  const [sight, set] = useState(ALL);
  useEffect(() => {
    const outer = frame.current;
    const inner = outer?.firstElementChild;
    if (!outer || !inner) return;
    const look = (): void => {
      const [window_, drawing] = [outer.getBoundingClientRect(), inner.getBoundingClientRect()];
      const scale = drawing.width / width || 1;
      const low = (pixels: number): number => Math.floor((pixels - MARGIN) / scale / STEP) * STEP;
      const high = (pixels: number): number => Math.ceil((pixels + MARGIN) / scale / STEP) * STEP;
      const next = {
        left: low(Math.max(0, window_.left) - drawing.left),
        top: low(Math.max(0, window_.top) - drawing.top),
        right: high(Math.min(innerWidth, window_.right) - drawing.left),
        bottom: high(Math.min(innerHeight, window_.bottom) - drawing.top),
      };
      set((last) => (last.left === next.left && last.top === next.top && last.right === next.right && last.bottom === next.bottom ? last : next));
    };
    const sized = new ResizeObserver(look);
    sized.observe(outer);
    sized.observe(document.documentElement); // what stands above may have become taller
    addEventListener("scroll", look, { capture: true, passive: true });
    addEventListener("resize", look);
    look();
    return () => {
      sized.disconnect();
      removeEventListener("scroll", look, { capture: true });
      removeEventListener("resize", look);
    };
  }, [width]);
  return sight;
}

export const within = (sight: Sight, at: { x: number; y: number }, size: { width: number; height: number }): boolean =>
  at.x < sight.right && at.x + size.width > sight.left && at.y < sight.bottom && at.y + size.height > sight.top;
