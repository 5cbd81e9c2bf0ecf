import { readLabels } from './read-labels.ts'
import type { Fields } from './reader.ts'

/**
 * Returns a stored document as agents get it: its labels as one map, since agents know no packs, and without what nothing is
 * decided by, cases and descriptions. The document must have no faults.
 */
export function deliveredDocument(document: Readonly<Fields>): Fields {
  const { description: _, labels, rules, ...rest } = document
  return {
    ...rest,
    ...(labels === undefined ? {} : { labels: Object.fromEntries(readLabels(labels).labels) }),
    ...(rules === undefined ? {} : { rules: (rules as Fields[]).map(withoutNotes) }),
  }
}

const withoutNotes = ({ description: _, cases: __, ...rule }: Fields): Fields => rule
