/** Records and fields of a CSV text by RFC 4180, as a spreadsheet reads them. */
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
  // The last line end is followed by nothing.
  return records.at(-1)?.join('') === '' ? records.slice(0, -1) : records
}
