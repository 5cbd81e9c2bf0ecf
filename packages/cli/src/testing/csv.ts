/** Parses CSV by RFC 4180 like a spreadsheet. */
export function parseCsv(text: string): string[][] {
  const records: string[][] = []
  let fields: string[] = []
  for (const [, quoted, bare, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n|$)/g)) {
    fields.push(quoted === undefined ? (bare ?? '') : quoted.replaceAll('""', '"'))
    if (end === ',') continue
    records.push(fields)
    fields = []
    if (end === '') break
  }
  // A trailing line break starts no record.
  return records.at(-1)?.join('') === '' ? records.slice(0, -1) : records
}
