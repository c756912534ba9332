// A list of any length in which only what is seen is in the page. Keyboard: arrows, j/k, Page Up/Down, Home, End.
import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useKeys } from "../keys";

export interface VirtualListProps {
  readonly label: string;
  readonly count: number;
  readonly rowHeight: number;
  readonly render: (index: number) => ComponentChildren;
  /** A stable name of the row. */
  readonly keyOf: (index: number) => string | number;
  readonly selected: number | null;
  readonly onSelect: (index: number) => void;
  readonly onOpen?: (index: number) => void;
  /** Stay at the end while it grows. */
  /** Where a row leads: it is a link then. */
  readonly hrefOf?: (index: number) => string;
  readonly follow?: boolean;
  readonly onFollow?: (follow: boolean) => void;
  readonly class?: string;
  readonly rowClass?: (index: number) => string;
  readonly id: string;
}

const BEYOND = 12;

export function VirtualList(props: VirtualListProps): JSX.Element {
  const { count, rowHeight, selected, onSelect, onOpen, follow = false } = props;
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 600 });

  useLayoutEffect(() => {
    const element = box.current;
    if (!element) return;
    const measure = () => setView({ top: element.scrollTop, height: element.clientHeight });
    measure();
    const watch = new ResizeObserver(measure);
    watch.observe(element);
    return () => watch.disconnect();
  }, []);

  const reveal = (index: number) => {
    const element = box.current;
    if (!element) return;
    const top = index * rowHeight;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top + rowHeight > element.scrollTop + element.clientHeight) element.scrollTop = top + rowHeight - element.clientHeight;
  };

  useEffect(() => {
    if (selected !== null && !follow) reveal(selected);
  }, [selected, count === 0]);
  useLayoutEffect(() => {
    if (follow && box.current) box.current.scrollTop = count * rowHeight;
  }, [follow, count]);

  const move = (to: number) => {
    if (count === 0) return;
    const index = Math.max(0, Math.min(count - 1, to));
    props.onFollow?.(false);
    onSelect(index);
    reveal(index);
  };
  const page = Math.max(1, Math.floor(view.height / rowHeight) - 1);
  const from = selected ?? -1;
  useKeys([
    { key: "j", does: "Next row", run: () => move(from + 1) },
    { key: "k", does: "Row before", run: () => move(from < 0 ? count - 1 : from - 1) },
    { key: "ArrowDown", does: "Next row", run: () => move(from + 1) },
    { key: "ArrowUp", does: "Row before", run: () => move(from < 0 ? count - 1 : from - 1) },
    { key: "PageDown", does: "Page down", run: () => move(from + page) },
    { key: "PageUp", does: "Page up", run: () => move(from - page) },
    { key: "Home", does: "First row", run: () => move(0) },
    { key: "End", does: "Last row", run: () => move(count - 1) },
    ...(onOpen
      ? [
          {
            key: "Enter",
            does: "Open the row",
            run: () => {
              if (selected !== null) onOpen(selected);
            },
          },
        ]
      : []),
  ]);

  const first = Math.max(0, Math.floor(view.top / rowHeight) - BEYOND);
  const last = Math.min(count, Math.ceil((view.top + view.height) / rowHeight) + BEYOND);
  const rows: JSX.Element[] = [];
  for (let index = first; index < last; index += 1) {
    const common = {
      key: props.keyOf(index),
      id: `${props.id}-${index}`,
      role: "option",
      "aria-selected": index === selected,
      "aria-setsize": count,
      "aria-posinset": index + 1,
      class: `row ${index === selected ? "is-selected" : ""} ${props.rowClass?.(index) ?? ""}`,
      style: { transform: `translateY(${index * rowHeight}px)`, height: `${rowHeight}px` },
      onClick: () => onSelect(index),
    } as const;
    rows.push(
      props.hrefOf ? (
        <a {...common} href={props.hrefOf(index)} tabIndex={-1}>
          {props.render(index)}
        </a>
      ) : (
        <div {...common} onDblClick={() => onOpen?.(index)}>
          {props.render(index)}
        </div>
      ),
    );
  }
  return (
    <div
      ref={box}
      class={`virtual ${props.class ?? ""}`}
      role="listbox"
      aria-label={props.label}
      tabIndex={0}
      aria-activedescendant={selected !== null && selected >= first && selected < last ? `${props.id}-${selected}` : undefined}
      onScroll={(event) => {
        const element = event.currentTarget;
        setView({ top: element.scrollTop, height: element.clientHeight });
        const atEnd = element.scrollTop + element.clientHeight >= element.scrollHeight - rowHeight;
        if (follow && !atEnd) props.onFollow?.(false);
      }}
    >
      <div class="virtual-space" style={{ height: `${count * rowHeight}px` }}>
        {rows}
      </div>
    </div>
  );
}
