/** A line of a comparison: in both texts, or only in the one before or after. */
export interface DiffLine {
  kind: 'same' | 'removed' | 'added' | 'gap'
  text: string
}

/** Lines shown around a change. */
const around = 2

/**
 * Compares two texts by lines. For texts that differ in a few lines: of what is between the first and last difference, a line
 * is the same where the next equal line is nearer than another difference.
 */
export function lineDiff(before: string, after: string): DiffLine[] {
  const [old, now] = [before.split('\n'), after.split('\n')]
  const lines: DiffLine[] = []
  let [at, to] = [0, 0]
  while (at < old.length || to < now.length) {
    if (at < old.length && old[at] === now[to]) {
      lines.push({ kind: 'same', text: old[at]! })
      at += 1
      to += 1
      continue
    }
    const added = at < old.length ? now.indexOf(old[at]!, to) : now.length
    const removed = to < now.length ? old.indexOf(now[to]!, at) : old.length
    const isAdded = added >= 0 && (removed < 0 || added - to <= removed - at)
    if (isAdded || removed >= 0) {
      for (; isAdded && to < added; to += 1) lines.push({ kind: 'added', text: now[to]! })
      for (; !isAdded && at < removed; at += 1) lines.push({ kind: 'removed', text: old[at]! })
      continue
    }
    lines.push({ kind: 'removed', text: old[at]! }, { kind: 'added', text: now[to]! })
    at += 1
    to += 1
  }
  const isNear = (index: number) =>
    lines.slice(Math.max(0, index - around), index + around + 1).some(({ kind }) => kind !== 'same')
  return lines.flatMap((line, index) => {
    if (isNear(index)) return [line]
    return index > 0 && isNear(index - 1) ? [{ kind: 'gap' as const, text: '' }] : []
  })
}
