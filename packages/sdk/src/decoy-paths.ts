import { Buffer } from 'node:buffer'

/** Up to this length any text may be a file name (`id_rsa`); a longer text must look like a path. */
const nameLength = 255
/** Below the 4,096 that the service accepts, which is also PATH_MAX of Linux. */
export const maxPathBytes = 4_090
/** Requests per call: enough for 4 MiB of text searched for keys, or for as many paths as can be checked in time. */
export const maxRequests = 1_500
/** A long script is checked in pieces; consecutive pieces share this much, which is more than any decoy. */
const overlapBytes = 1_100
const maxFolderBytes = 1_000
const pieceBytes = maxPathBytes - maxFolderBytes - 20

/** A separator, a home folder, a name with an extension or a leading dot. */
const looksLikePath = (text: string): boolean => /[/\\~]|\w\.\w{1,12}(?!\w)|(?<![\w.])\.\w/.test(text)
const mayBePath = (text: string): boolean => (text.length <= nameLength && /\p{L}/u.test(text)) || looksLikePath(text)
const isOneWord = (text: string): boolean => !/[\s;|&<>()`"'\\]/.test(text)
const bytesOf = (text: string): number => Buffer.byteLength(text)
const fits = (text: string): boolean => text.length <= maxPathBytes && bytesOf(text) <= maxPathBytes

/** The service follows these commands from folder to folder, so a text with one is checked separately. */
const folderChange = /(?:^|[\s;|&(])(?:cd|pushd|chdir|set-location|-C)\s+(?:"([^"\n]*)"|'([^'\n]*)'|([^\s;|&<>()]*))/gi
const changesFolder = (text: string): boolean => text.search(folderChange) >= 0

/**
 * Packs texts and names of fields, as paths or commands, into as few requests as possible. Undefined if scripts alone
 * exceed the maximum number of requests.
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
      // Quoted, as the name of one file; and its words, separately or as in a longer text.
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

/** A path that is too long to be opened may become shorter when a tool normalizes it. */
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

/** Splits a script into pieces that fit, each with the folder in which it starts. */
function scriptPieces(text: string): string[] {
  const bytes = Buffer.from(text)
  const changes = text.matchAll(folderChange)
  let change = changes.next()
  let at = 0
  let index = 0
  let folder: string | undefined
  const pieces: string[] = []
  for (let start = 0; ; start += pieceBytes - overlapBytes) {
    const before = folder
    while (!change.done) {
      const [, double, single, bare] = change.value
      at += bytesOf(text.slice(index, change.value.index))
      index = change.value.index
      if (at > start) break
      const path = (double ?? single ?? bare ?? '').replaceAll("'", '')
      folder = /^(?:[/~\\$%]|[a-z]:)/i.test(path) ? path : `${folder ?? '.'}/${path}`
      change = changes.next()
    }
    // Normalize once per piece, because a script may change folder hundreds of thousands of times.
    if (folder !== before) folder = plainPath(folder!) || '.'
    if (folder && bytesOf(folder) > maxFolderBytes) folder = '.'
    const piece = bytes.subarray(start, start + pieceBytes).toString()
    pieces.push(folder === undefined ? piece : `cd '${folder}'; ${piece}`)
    if (start + pieceBytes >= bytes.length) return pieces
  }
}

/** Normalizes a path in linear time. `posix.normalize` is quadratic: minutes for what a model may write. */
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

/** Joins parts into texts of up to the given size. */
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
