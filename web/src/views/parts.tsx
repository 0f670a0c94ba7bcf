// Small parts that several views have.
import type { ComponentChildren, JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { notice } from '../state';

const kIcons = {
  plus: 'M8 3v10M3 8h10',
  menu: 'M2.5 4.5h11M2.5 8h11M2.5 11.5h11',
  sliders: 'M2.5 5h6M11.5 5h2M2.5 11h2M7.5 11h6M8.5 3.5v3M4.5 9.5v3',
  copy: 'M5.5 5.5v-2h7v7h-2M3.5 5.5h7v7h-7z',
  edit: 'M3 13l.6-2.6L11 3l2 2-7.4 7.4L3 13z',
  again: 'M12.8 6.5A5 5 0 1 0 13 9M13 3v3.5H9.5',
  left: 'M10 3.5L5.5 8l4.5 4.5',
  right: 'M6 3.5L10.5 8 6 12.5',
  heat: 'M2.5 12.5h2v-4h-2zM7 12.5h2v-9H7zM11.5 12.5h2v-6h-2z',
  trash: 'M3 4.5h10M6 4.5v-2h4v2M4.5 4.5l.5 9h6l.5-9',
  clip: 'M11.5 6.5l-5 5a2 2 0 0 1-3-3l5.5-5.5a1.4 1.4 0 0 1 2 2L6 10',
  up: 'M8 13V3.5M4 7l4-4 4 4',
  stop: 'M4.5 4.5h7v7h-7z',
  close: 'M4 4l8 8M12 4l-8 8',
  check: 'M3 8.5l3.2 3.2L13 5',
} as const;

export type IconName = keyof typeof kIcons;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true">
      <path d={kIcons[name]} />
    </svg>
  );
}

type ButtonProps = JSX.IntrinsicElements['button'] & { icon: IconName; label: string };

/** A button with an icon alone; `label` is for screen readers, and its tip. */
export function IconButton({ icon, label, ...rest }: ButtonProps) {
  return (
    <button type="button" class="icon-button" aria-label={label} title={label} {...rest}>
      <Icon name={icon} />
    </button>
  );
}

export async function copyText(text: string) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Pages over plain HTTP from another machine have no clipboard.
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

export function CopyButton({ label, text }: { label: string; text: () => string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return undefined;
    const timer = setTimeout(() => setDone(false), 1200);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <IconButton
      icon={done ? 'check' : 'copy'}
      label={done ? 'Copied' : label}
      onClick={() => void copyText(text()).then(() => setDone(true))}
    />
  );
}

export function Dialog({ title, onClose, children }: { title: string; onClose: () => void; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog
      ref={dialog}
      aria-labelledby="dialog-title"
      onCancel={(event) => {
        event.preventDefault();
        onClose();
      }}
    >
      <h2 id="dialog-title">{title}</h2>
      {children}
    </dialog>
  );
}

/** Words that pass by. */
export function Notice() {
  useEffect(() => {
    if (notice.value === '') return undefined;
    const timer = setTimeout(() => (notice.value = ''), 8000);
    return () => clearTimeout(timer);
  }, [notice.value]);
  return (
    <div class="notice-place" role="status">
      {notice.value !== '' && (
        <div class="notice">
          <span>{notice.value}</span>
          <IconButton icon="close" label="Close" onClick={() => (notice.value = '')} />
        </div>
      )}
    </div>
  );
}

export function download(name: string, text: string, type = 'application/json') {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

export function pickFiles(accept: string, many: boolean): Promise<File[]> {
  return new Promise((resolve) => {
    const input = document.createElement('input');
    input.type = 'file';
    input.accept = accept;
    input.multiple = many;
    input.onchange = () => resolve([...(input.files ?? [])]);
    input.oncancel = () => resolve([]);
    input.click();
  });
}
