// Light or dark.
import { signal } from '@preact/signals';

export type Theme = 'auto' | 'light' | 'dark';
const kStorageKey = 'cairn-theme';

export const theme = signal<Theme>('auto');

export function applyTheme(wanted: Theme) {
  theme.value = wanted;
  if (wanted === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = wanted;
  try {
    localStorage.setItem(kStorageKey, wanted);
  } catch {
    // Without storage it lasts as long as the page.
  }
}

export function readTheme() {
  try {
    const kept = localStorage.getItem(kStorageKey);
    if (kept === 'light' || kept === 'dark') applyTheme(kept);
  } catch {
    // As the system has it, then.
  }
}
