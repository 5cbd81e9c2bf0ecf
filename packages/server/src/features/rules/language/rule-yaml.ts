import { stringify } from 'yaml'

/** Writes YAML whose texts are texts also for readers of YAML 1.1, which take `no`, `1:30` and dates for other types. */
export const ruleText = (document: object): string =>
  stringify(document, { lineWidth: 0, aliasDuplicateObjects: false, compat: 'yaml-1.1' })
