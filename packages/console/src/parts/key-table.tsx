/** The keys, and the switch for those that are single letters. */
import { Dialog } from "@base-ui/react/dialog";
import { useSyncExternalStore } from "react";
import { KEYS, letterKeys, setLetterKeys } from "./keys.ts";

export function KeyTable({ onClose }: { readonly onClose: () => void }) {
  const isOn = useSyncExternalStore(letterKeys.subscribe, letterKeys.get);
  return (
    <Dialog.Root open onOpenChange={(isOpen) => isOpen || onClose()}>
      <Dialog.Portal>
        <Dialog.Backdrop className="backdrop" />
        <Dialog.Popup className="dialog">
          <Dialog.Title>Keys</Dialog.Title>
          <dl className="keys">
            {KEYS.map(([keys, what]) => (
              <div key={keys}>
                <dt>
                  <kbd>{keys}</kbd>
                </dt>
                <dd>{what}</dd>
              </div>
            ))}
          </dl>
          <label className="check">
            <input type="checkbox" checked={isOn} onChange={(event) => setLetterKeys(event.target.checked)} /> Single
            letters and signs are keys
          </label>
          <div className="buttons">
            <Dialog.Close>Close</Dialog.Close>
          </div>
        </Dialog.Popup>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
