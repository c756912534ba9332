import type { ComponentChildren, JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";

/** A modal dialog that takes the focus and gives it back. */
export function Modal({ label, onClose, children }: { readonly label: string; readonly onClose: () => void; readonly children: ComponentChildren }): JSX.Element {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    dialog.current?.showModal();
  }, []);
  return (
    <dialog ref={dialog} class="dialog" aria-label={label} onClose={onClose} onCancel={onClose}>
      {children}
    </dialog>
  );
}
