import { Buffer } from 'node:buffer'

/** A here-document that ends, with its places in the bytes of the script. */
interface HereDocument {
  /** The line that opens it, and the one that closes it. */
  opening: string
  closing: string
  /** Start of the opening line. */
  from: number
  /** End of the closing line. */
  until: number
}

/** Escaped characters, quotes, here-strings, and the start of a here-document with its delimiter. */
const syntax = /\\.|["']|<<<|<<-?[ \t]*(["'\\]?)([A-Za-z_]\w*)\1/gs

/**
 * Returns the here-documents of a script in order. Recognizes them as the service does in one request, so that a part of
 * a document is read there like the whole. Linear in the text.
 */
export function hereDocuments(text: string): HereDocument[] {
  const found: HereDocument[] = []
  let open: Omit<HereDocument, 'until'> | undefined
  let quote = ''
  let from = 0
  for (let start = 0; start <= text.length; ) {
    const next = text.indexOf('\n', start)
    const end = next < 0 ? text.length : next
    const line = text.slice(start, end)
    const until = from + Buffer.byteLength(line)
    if (open === undefined) {
      let closing: string | undefined
      for (const [sign, , delimiter] of line.matchAll(syntax)) {
        if (quote === '') {
          if (sign === '"' || sign === "'") quote = sign
          else closing = delimiter ?? closing
        } else if (sign === quote || (quote === "'" && sign === "\\'")) quote = ''
      }
      if (closing !== undefined) open = { opening: line, closing, from }
    } else if (line.replace(/^\t+/, '') === open.closing) {
      found.push({ ...open, until })
      open = undefined
    }
    from = until + 1
    start = end + 1
  }
  return found
}

/** Returns a function that finds the document in which a place is, for places in ascending order. */
export function documentAt(documents: readonly HereDocument[]): (place: number) => HereDocument | undefined {
  let next = 0
  return (place) => {
    while (next < documents.length && documents[next]!.until <= place) next++
    const found = documents[next]
    return found && found.from < place ? found : undefined
  }
}
