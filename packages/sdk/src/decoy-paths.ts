import { Buffer } from 'node:buffer'
import { documentAt, hereDocuments } from './here-documents.ts'

/**
 * Up to this length, any text may be a name or short command and is checked, even if it does not look like a path
 * (`id_rsa`). Longer texts must look like one.
 */
const nameLength = 255
/** Just below the service's limit of 4,096, which is also the longest path that Linux opens. */
export const maxPathBytes = 4_090
/**
 * Maximum requests for one call: enough for 4 MiB of keys in every reading, or for as many paths as can be checked in
 * time.
 */
export const maxRequests = 1_500
/** Long scripts are checked in pieces that overlap by this much, which is longer than any decoy. */
const overlapBytes = 1_100
/** Space in each piece for its starting folder, and for the lines of its here-document. */
const maxFolderBytes = 1_000
const pieceBytes = maxPathBytes - maxFolderBytes - 20

/** Whether the text contains a separator, a `~`, or a name with an extension or a leading dot. */
const looksLikePath = (text: string): boolean => /[/\\~]|\w\.\w{1,12}(?!\w)|(?<![\w.])\.\w/.test(text)
const mayBePath = (text: string): boolean => (text.length <= nameLength && /\p{L}/u.test(text)) || looksLikePath(text)
const isOneWord = (text: string): boolean => !/[\s;|&<>()`"'\\]/.test(text)
const bytesOf = (text: string): number => Buffer.byteLength(text)
const fits = (text: string): boolean => text.length <= maxPathBytes && bytesOf(text) <= maxPathBytes

/** The service tracks folder changes through a command, so such a command must not be packed with others. */
const folderChange = /(?:^|[\s;|&(])(?:cd|pushd|chdir|set-location|-C)\s+(?:"([^"\n]*)"|'([^'\n]*)'|([^\s;|&<>()]*))/gi
const changesFolder = (text: string): boolean => text.search(folderChange) >= 0

/**
 * Returns the requests that check texts and field names as paths or commands, packed into as few as possible. Undefined
 * if scripts alone exceed the maximum.
 */
export function pathTexts(texts: string[], names: string[]): string[] | undefined {
  const words = new Set<string>()
  const alone: string[] = []
  for (const text of [...texts.filter(mayBePath), ...names.filter(looksLikePath)]) {
    if (isOneWord(text)) addWord(words, text)
    else if (changesFolder(text)) {
      const pieces = (bytesOf(text) - overlapBytes) / (pieceBytes - overlapBytes)
      if (alone.length + pieces > maxRequests) return undefined
      alone.push(...(fits(text) ? [text] : scriptPieces(text)))
    } else if (fits(text)) {
      // Check the text in quotes as one file name, and also its words: separately, or as part of a longer text.
      words.add(quoted(text))
      if (text.length <= nameLength) words.add(text)
      else addWords(words, text)
    } else {
      for (const [, name] of [
        ...text.matchAll(/"(?=([^"\n]{1,1000})")/g),
        ...text.matchAll(/'(?=([^'\n]{1,1000})')/g),
      ]) {
        if (!isOneWord(name!) && looksLikePath(name!)) words.add(quoted(name!))
      }
      addWords(words, text)
    }
  }
  return [...alone, ...packed([...words].filter(fits), '\n', maxPathBytes, bytesOf)]
}

const quoted = (text: string): string => `'${text.replaceAll("'", '')}'`

function addWords(words: Set<string>, text: string): void {
  for (const word of text.split(/[\s;|&<>()`"']+/)) if (looksLikePath(word)) addWord(words, word)
}

/**
 * Adds a word. A path too long to be opened is also checked without detours such as `../`, because a tool may remove
 * them.
 */
function addWord(words: Set<string>, word: string): void {
  if (fits(word)) return void words.add(word)
  const plain = word
    .replace(/%2e/gi, '.')
    .replace(/%2f/gi, '/')
    .replace(/%5c|\\/gi, '/')
  for (const part of new Set([plain, ...plain.split(/[=,:@{}[\]]+/)])) {
    const path = plainPath(part)
    if (looksLikePath(path) && fits(path)) words.add(path)
  }
}

/**
 * Splits a script into pieces that fit a request, each with its starting folder and within the here-document in which it
 * starts: the service distinguishes the content of a file, which looks like costly shell syntax, from what a shell reads.
 */
function scriptPieces(text: string): string[] {
  const bytes = Buffer.from(text)
  const documents = hereDocuments(text)
  const [openAtStart, openAtEnd] = [documentAt(documents), documentAt(documents)]
  const changes = text.matchAll(folderChange)
  let change = changes.next()
  let at = 0
  let index = 0
  let folder: string | undefined
  const pieces: string[] = []
  for (let start = 0; ; start += pieceBytes - overlapBytes) {
    const before = folder
    while (!change.done) {
      const [whole, double, single, bare] = change.value
      const place = change.value.index + (/^[\s;|&(]/.test(whole) ? 1 : 0)
      at += bytesOf(text.slice(index, place))
      index = place
      // The piece itself contains this change.
      if (at >= start) break
      const path = (double ?? single ?? bare ?? '').replaceAll("'", '')
      folder = /^(?:[/~\\$%]|[a-z]:)/i.test(path) ? path : `${folder ?? '.'}/${path}`
      change = changes.next()
    }
    // Normalize once per piece: scripts may change folder hundreds of thousands of times.
    if (folder !== before) folder = plainPath(folder!) || '.'
    if (folder && bytesOf(folder) > maxFolderBytes) folder = '.'
    const end = start + pieceBytes
    const opened = openAtStart(start)
    const cut = openAtEnd(end)
    // The folder stands in front already.
    const opening = opened ? `${opened.opening.replace(folderChange, ' ')}\n` : ''
    const closing = cut ? `\n${cut.closing}` : ''
    const piece = bytes.subarray(start, end).toString()
    const within = bytesOf(`${folder ?? ''}${opening}${closing}`) > maxFolderBytes ? piece : opening + piece + closing
    pieces.push(folder === undefined ? within : `cd '${folder}'; ${within}`)
    if (end >= bytes.length) return pieces
  }
}

/**
 * Removes `.`, `..` and empty parts. `posix.normalize` takes quadratic time, minutes for paths that a model may write.
 */
export function plainPath(path: string): string {
  const root = path.startsWith('/') ? '/' : ''
  const names: string[] = []
  for (const name of path.split('/')) {
    if (name !== '..') name === '' || name === '.' || names.push(name)
    else if (names.length > 0 && names.at(-1) !== '..') names.pop()
    else if (root === '') names.push(name)
  }
  return root + names.join('/') + (names.length > 0 && path.endsWith('/') ? '/' : '')
}

/** Joins parts into packs of at most `maxSize`. */
export function packed(
  parts: string[],
  separator: string,
  maxSize: number,
  sizeOf: (text: string) => number,
): string[] {
  const packs: string[][] = []
  let room = 0
  for (const part of parts) {
    const size = sizeOf(part) + separator.length
    if (size > room) {
      packs.push([])
      room = maxSize + separator.length
    }
    packs.at(-1)!.push(part)
    room -= size
  }
  return packs.map((pack) => pack.join(separator))
}
