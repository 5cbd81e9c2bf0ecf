import type { Slices, WorkBudget } from '../../work-turns.ts'
import { type CanonicalPath, canonicalPath, fromFolder, homeOf, isSettled, pathText } from './canonical-path.ts'
import { isPlain, spellings, withoutFileScheme } from './path-spellings.ts'
import { isWebAddress, shellWords } from './path-words.ts'

/** Maximum length of a path on Linux. A caller that must miss nothing rejects longer input. */
export const maxPathBytes = 4096

/** Maximum number of names at the end of a path by which a decoy without a root is found. */
const maxSuffixNames = 16

/** Root of paths in any user's home. No typed path has it, because `~name` becomes `/home/name`. */
const anyHome = '~+'

/**
 * Start of relative paths whose folder is unknown: deeper than paths climb, so that they match only decoys without a root.
 * Any other guess would take work in one folder for a decoy in another.
 */
export const unknownFolder = '/\ufffd'.repeat(64)

/** Maximum number of folder changes in a command; commands of honest agents have fewer. */
export const maxFolders = 32

/** Cost of looking up one key, in addition to building it: its digest, and its place in a query. */
export const unitsOfLookup = 1_500

export interface PathContext {
  /** The folder the agent works in. */
  cwd?: string | undefined
  /** The same path as resolved by the agent's host. */
  realPath?: string | undefined
}

/** Each canonical text, with the number of names at its end that the input wrote; the others are the working folder's. */
export type PathForms = ReadonlyMap<string, number>

/**
 * Returns every canonical text that `input` may mean: a path in any spelling, or a command, word by word. Never throws:
 * input that cannot be parsed is taken literally. Look the forms up by `lookupKeys`, and match patterns against them.
 * Forms that the budget does not cover are skipped, unusual spellings before plain ones.
 */
export function* pathForms(input: string, context: PathContext, budget: WorkBudget): Slices<PathForms> {
  const forms = new Map<string, number>()
  const cwd = context.cwd === undefined ? undefined : startOf(boundedPath(context.cwd))
  const realPath = boundedPath(context.realPath ?? '')
  addPlain(forms, { word: withoutFileScheme(realPath), starts: [] }, cwd, budget)
  const places = yield* placedWords(boundedPath(input), cwd, budget)
  for (const { word, starts } of places) {
    addPlain(forms, { word: withoutFileScheme(word), starts }, cwd, budget)
    if (budget.isSliceOver()) yield
  }
  for (const { word, starts } of [...places, { word: realPath, starts: [] }]) {
    if (isPlain(word)) continue
    if (!budget.take(word.length * 40)) break
    for (const spelling of spellings(word)) addPlain(forms, { word: spelling, starts }, cwd, budget)
    if (budget.isSliceOver()) yield
  }
  return forms
}

export function boundedPath(text: string): string {
  if (text.length * 3 <= maxPathBytes) return text
  return Buffer.byteLength(text) <= maxPathBytes ? text : Buffer.from(text).subarray(0, maxPathBytes).toString()
}

/** Start folder of relative paths. `prefixes`: its absolute texts, if relative paths can simply be appended. */
interface Start {
  path: CanonicalPath
  prefixes: string[] | undefined
  /** Whether the input itself changed to it and it is hidden: nobody works in `~/.aws`, so it counts as written. */
  isWritten: boolean
}

function startOf(text: string, from?: Start, isChange = false): Start {
  const path = from === undefined ? canonicalPath(text) : fromFolder(from.path, canonicalPath(text))
  const isWritten = isChange && path.names.at(-1)?.startsWith('.') === true
  return { path, prefixes: isSettled(path) ? absoluteTexts(path) : undefined, isWritten }
}

interface PlacedWord {
  word: string
  starts: Start[]
}

/**
 * Returns the words of a command with their possible start folders: the agent's, and the one the command changed to.
 */
function* placedWords(text: string, cwd: Start | undefined, budget: WorkBudget): Slices<PlacedWord[]> {
  const placed: PlacedWord[] = []
  const seen = new Set<string>()
  let folder = cwd
  let folders = 0
  let previous = ''
  for (const word of [text, ...(yield* shellWords(text, budget))]) {
    const key = `${folders} ${word}`
    // After a folder change, names are relative to the new folder, or to the first one if the change failed.
    if (!seen.has(key))
      placed.push({ word, starts: [...new Set([cwd, folder])].filter((start) => start !== undefined) })
    seen.add(key)
    if (isFolderChange(previous) && word !== '') {
      if (++folders > maxFolders || !budget.take(10 * maxPathBytes)) budget.exhaust()
      else folder = startOf(word, folder, true)
    }
    previous = word
    if (budget.isSliceOver()) yield
  }
  return placed
}

export function isFolderChange(word: string): boolean {
  return /^(?:cd|pushd|chdir|set-location|-C)$/i.test(word)
}

function addPlain(
  forms: Map<string, number>,
  { word, starts }: PlacedWord,
  cwd: Start | undefined,
  budget: WorkBudget,
): void {
  if (!budget.take(200 + word.length * 4)) return
  const path = canonicalPath(word)
  const { root, names } = path
  if (names.length === 0 || (root === '' && isWebAddress(names))) return
  if (root !== '') {
    const written = cwd !== undefined && isBelow(path, cwd.path) ? names.length - cwd.path.names.length : Infinity
    for (const form of absoluteTexts(path)) add(forms, form, written, budget)
    return
  }
  for (const start of starts) {
    const written = start.isWritten ? Infinity : names.length
    for (const form of startedTexts(path, start, budget)) add(forms, form, written, budget)
  }
  if (cwd === undefined || cwd.path.root === '') add(forms, pathText('', names), Infinity, budget)
}

/** Whether a path is below a folder that an agent works in. A hidden one may hold secrets. */
function isBelow({ root, names }: CanonicalPath, folder: CanonicalPath): boolean {
  return (
    root === folder.root &&
    names.length > folder.names.length &&
    folder.names.at(-1)?.startsWith('.') === false &&
    folder.names.every((name, place) => name === names[place])
  )
}

/** Adds a form, unless it is longer than the longest path that a system opens. */
function add(forms: Map<string, number>, form: string, written: number, budget: WorkBudget): void {
  if (form.length > maxPathBytes || !budget.take(50 + form.length)) return
  forms.set(form, Math.max(written, forms.get(form) ?? 0))
}

function startedTexts(path: CanonicalPath, { path: folder, prefixes }: Start, budget: WorkBudget): string[] {
  if (prefixes !== undefined && path.ups === undefined) {
    const rest = path.names.join('/')
    return prefixes.map((prefix) => `${prefix}/${rest}`)
  }
  if (!budget.take((folder.names.length + path.names.length) * 40)) return []
  const reached = fromFolder(folder, path)
  return reached.root === '' ? [pathText('', reached.names)] : absoluteTexts(reached)
}

/** Returns the texts by which an absolute path is looked up. */
export function absoluteTexts(path: CanonicalPath): string[] {
  const texts: string[] = []
  const home = homeOf(path)
  if (path.root === '~') texts.push(pathText(anyHome, path.names))
  if (home === undefined || !path.root.startsWith('~')) texts.push(pathText(path.root, path.names))
  else for (const place of homesOf(home.user)) texts.push(pathText('/', [...place, ...home.rest]))
  if (home !== undefined) texts.push(pathText('~', home.rest))
  return texts
}

function homesOf(user: string): string[][] {
  return user === 'root'
    ? [['root']]
    : [
        ['home', user],
        ['users', user],
      ]
}

/**
 * Returns the keys under which a decoy path is indexed, so that a check finds it by its own keys, whatever the number
 * of decoys. A decoy in a named user's home matches that name and `~`; one under `~` matches every user. A relative
 * decoy (`.env.production`, `secrets/db.yml`) matches any path with this ending. An absolute decoy also matches a
 * relative path of at least two names, because the start folder is not always known.
 */
export function decoyPathKeys(path: string): string[] {
  const parsed = canonicalPath(path)
  if (parsed.root === '') return [suffixKey(parsed.names), ...relativeKeys(parsed.names)]
  return [...rootedKeys(parsed), ...relativeKeys(belowHome(parsed))]
}

/** Returns the absolute keys among `decoyPathKeys`. */
export function rootedKeys(path: CanonicalPath): string[] {
  const { root, names } = path
  const home = homeOf(path)
  if (isAnyHome(path)) return [pathText('~', home?.rest ?? names)]
  if (home === undefined) return [pathText(root, names)]
  const written = root.startsWith('~') ? homesOf(home.user).map((place) => pathText('/', [...place, ...home.rest])) : []
  const own = written.length > 0 ? written : [pathText(root, names)]
  return [...own, pathText(anyHome, home.rest)]
}

/** Whether a decoy is in the home of every user. */
export function isAnyHome(path: CanonicalPath): boolean {
  const home = homeOf(path)
  return path.root === '~' || (home !== undefined && /[*?]/.test(home.user))
}

/** Returns the names of an absolute path, from the home on if it is in one. */
export function belowHome(path: CanonicalPath): string[] {
  return homeOf(path)?.rest ?? path.names
}

/**
 * Returns the lookup keys of a check's forms: each form and its endings, shortest first, as far as the budget allows.
 */
export function* lookupKeys(forms: readonly string[], budget: WorkBudget): Slices<string[]> {
  const keys = new Set<string>()
  const add = (key: string): void => {
    if (!keys.has(key) && budget.take(unitsOfLookup + key.length)) keys.add(key)
  }
  for (const form of forms) add(form)
  let ends = forms.map((form) => {
    const body = form.replace(/^(?:~\+?|[a-z]:)?\//, '')
    return { body, place: body.length }
  })
  for (let count = 1; count <= maxSuffixNames && ends.length > 0 && !budget.isSpent; count++) {
    for (const end of ends) {
      end.place = end.place <= 0 ? -1 : end.body.lastIndexOf('/', end.place - 1)
      add(`**/${end.body.slice(end.place + 1)}`)
      if (budget.isSliceOver()) yield
    }
    ends = ends.filter(({ body, place }) => place > 0 && body[place - 1] !== '\ufffd')
  }
  return [...keys]
}

function suffixKey(names: readonly string[]): string {
  return `**/${names.slice(-maxSuffixNames).join('/')}`
}

export function relativeKeys(names: readonly string[]): string[] {
  const keys: string[] = []
  for (let start = Math.max(0, names.length - maxSuffixNames); start <= names.length - 2; start++) {
    keys.push(names.slice(start).join('/'))
  }
  return keys
}
