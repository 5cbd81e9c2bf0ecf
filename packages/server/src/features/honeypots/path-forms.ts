import type { Slices, WorkBudget } from '../../work-turns.ts'
import { type CanonicalPath, canonicalPath, fromFolder, homeOf, isSettled, pathText } from './canonical-path.ts'
import { isPlain, spellings, withoutFileScheme } from './path-spellings.ts'
import { isWebAddress, shellWords } from './path-words.ts'

/** The longest path Linux opens. A caller that must miss nothing refuses longer input. */
export const maxPathBytes = 4096

/** Names counted from the end of a path by which a decoy without a root can be found. */
const maxSuffixNames = 16

/** Stands for any user's home: no typed path reads like this, since `~name` becomes `/home/name`. */
const anyHome = '~+'

/** Folders that a command changes to, one from another; no command of an honest agent has as many. */
export const maxFolders = 32

/** What a look-up of one key costs beside its making: its digest, and its place in a query. */
export const unitsOfLookup = 1_500

export interface PathContext {
  /** The folder the agent works in. */
  cwd?: string | undefined
  /** The same path as its host resolved it. */
  realPath?: string | undefined
}

/**
 * Every canonical text that `input` may mean: a path in any spelling, or a command whose words are tried one by one.
 * Nothing throws: what cannot be parsed is taken literally. Look the forms up by `lookupKeys`, and match patterns
 * against them. What the budget does not pay for is left out: unusual spellings before plain ones.
 */
export function* pathForms(input: string, context: PathContext, budget: WorkBudget): Slices<string[]> {
  const forms = new Set<string>()
  const cwd = context.cwd === undefined ? undefined : startOf(boundedPath(context.cwd))
  const isRooted = cwd !== undefined && cwd.path.root !== ''
  const realPath = boundedPath(context.realPath ?? '')
  addPlain(forms, withoutFileScheme(realPath), [], false, budget)
  const places = yield* placedWords(boundedPath(input), cwd, budget)
  for (const { word, starts } of places) {
    addPlain(forms, withoutFileScheme(word), starts, isRooted, budget)
    if (budget.isSliceOver()) yield
  }
  for (const { word, starts } of [...places, { word: realPath, starts: [] }]) {
    if (isPlain(word)) continue
    if (!budget.take(word.length * 40)) break
    for (const spelling of spellings(word)) addPlain(forms, spelling, starts, isRooted, budget)
    if (budget.isSliceOver()) yield
  }
  return [...forms]
}

export function boundedPath(text: string): string {
  if (text.length * 3 <= maxPathBytes) return text
  return Buffer.byteLength(text) <= maxPathBytes ? text : Buffer.from(text).subarray(0, maxPathBytes).toString()
}

/** A folder from which relative paths start, with the texts that paths in it begin with if they only lead downward. */
interface Start {
  path: CanonicalPath
  prefixes: string[] | undefined
}

function startOf(text: string, from?: Start): Start {
  const path = from === undefined ? canonicalPath(text) : fromFolder(from.path, canonicalPath(text))
  return { path, prefixes: isSettled(path) ? absoluteTexts(path) : undefined }
}

interface PlacedWord {
  word: string
  starts: Start[]
}

/** The words of a command with the folders that each may start from: the agent's, and the one the command went to. */
function* placedWords(text: string, cwd: Start | undefined, budget: WorkBudget): Slices<PlacedWord[]> {
  const placed: PlacedWord[] = []
  const seen = new Set<string>()
  let folder = cwd
  let folders = 0
  let previous = ''
  for (const word of [text, ...shellWords(text)]) {
    const key = `${folders} ${word}`
    // A command that changes folder names its files from there, or from the first folder if the change failed.
    if (!seen.has(key))
      placed.push({ word, starts: [...new Set([cwd, folder])].filter((start) => start !== undefined) })
    seen.add(key)
    if (isFolderChange(previous) && word !== '') {
      if (++folders > maxFolders || !budget.take(10 * maxPathBytes)) budget.exhaust()
      else folder = startOf(word, folder)
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
  forms: Set<string>,
  text: string,
  starts: readonly Start[],
  isRooted: boolean,
  budget: WorkBudget,
): void {
  if (!budget.take(200 + text.length * 4)) return
  const path = canonicalPath(text)
  if (path.names.length === 0 || (path.root === '' && isWebAddress(path.names))) return
  if (path.root !== '') for (const form of absoluteTexts(path)) add(forms, form, budget)
  else {
    for (const start of starts) for (const form of startedTexts(path, start, budget)) add(forms, form, budget)
    if (!isRooted) add(forms, pathText('', path.names), budget)
  }
}

/** Adds a form, unless it is longer than any path that a system opens. */
function add(forms: Set<string>, form: string, budget: WorkBudget): void {
  if (form.length <= maxPathBytes && budget.take(50 + form.length)) forms.add(form)
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

/** The texts that an absolute path is looked up by. */
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
 * The keys to index a decoy path under, so that looking up every key of a question finds it whatever the number of
 * decoys. A decoy in a named user's home answers to that name and to `~`, one under `~` to every user; a relative one
 * (`.env.production`, `secrets/db.yml`) to any path that ends so; an absolute one also to a relative question of at
 * least two names, because the folder it starts from is not always known.
 */
export function decoyPathKeys(path: string): string[] {
  const parsed = canonicalPath(path)
  if (parsed.root === '') return [suffixKey(parsed.names), ...relativeKeys(parsed.names)]
  return [...rootedKeys(parsed), ...relativeKeys(belowHome(parsed))]
}

/** The absolute texts of `decoyPathKeys`. */
export function rootedKeys(path: CanonicalPath): string[] {
  const { root, names } = path
  const home = homeOf(path)
  if (isAnyHome(path)) return [pathText('~', home?.rest ?? names)]
  if (home === undefined) return [pathText(root, names)]
  const written = root.startsWith('~') ? homesOf(home.user).map((place) => pathText('/', [...place, ...home.rest])) : []
  const own = written.length > 0 ? written : [pathText(root, names)]
  return [...own, pathText(anyHome, home.rest)]
}

/** Whether a decoy lies in the home of every user. */
export function isAnyHome(path: CanonicalPath): boolean {
  const home = homeOf(path)
  return path.root === '~' || (home !== undefined && /[*?]/.test(home.user))
}

/** The names of an absolute path, from the home on if it lies in one. */
export function belowHome(path: CanonicalPath): string[] {
  return homeOf(path)?.rest ?? path.names
}

/**
 * Every key a question's forms are to be looked up by: the forms themselves and the ends of each, the shortest first,
 * as far as the budget pays for them.
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
  for (let count = 1; count <= maxSuffixNames && ends.length > 0 && !budget.isExhausted; count++) {
    for (const end of ends) {
      end.place = end.place <= 0 ? -1 : end.body.lastIndexOf('/', end.place - 1)
      add(`**/${end.body.slice(end.place + 1)}`)
      if (budget.isSliceOver()) yield
    }
    ends = ends.filter(({ place }) => place > 0)
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
