/** Formats a number with its noun: `1 event`, `2 events`, `1,204 events`. */
export const counted = (count: number, noun: string): string =>
  `${count.toLocaleString('en')} ${noun}${count === 1 ? '' : 's'}`
