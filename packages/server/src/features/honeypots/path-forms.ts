import { type CanonicalPath, canonicalPath, homeOf, pathText } from './canonical-path.ts'
import { spellings } from './path-spellings.ts'
import { isWebAddress, shellWords } from './path-words.ts'

/** The longest path Linux opens. A caller that must miss nothing refuses longer input. */
export const MAX_PATH_BYTES = 4096

/** More forms than any input of `MAX_PATH_BYTES` was found to have; a guard, not a rule. */
export const MAX_PATH_FORMS = 16_384

/** Names counted from the end of a path by which a decoy without a root can be found. */
const MAX_SUFFIX_NAMES = 16

/** Stands for the home of whatever user: no path typed by anybody reads so, since `~name` becomes `/home/name`. */
const ANY_HOME = '~+'

/**
 * Every canonical text that `input` may mean: a path in any spelling, or a command whose words are tried one by one.
 * `cwd` is the folder the agent works in, `realPath` the same path as its host resolved it. Nothing throws: what
 * cannot be parsed is taken literally. Look the forms up by `lookupKeys`, and match patterns against them.
 */
export function pathForms(input: string, context: { cwd?: string; realPath?: string } = {}): string[] {
  const text = bounded(input)
  const forms = new Set<string>()
  const cwd = context.cwd === undefined ? undefined : bounded(context.cwd)
  const isRooted = cwd !== undefined && canonicalPath(cwd).root !== ''
  let folder = cwd
  let previous = ''
  // A command that changes folder names its files from there, or from the first folder if the change failed.
  for (const word of [text, ...shellWords(text)]) {
    const bases = [cwd, folder === cwd ? undefined : folder].filter((base) => base !== undefined)
    addForms(forms, word, bases, isRooted)
    if (isFolderChange(previous)) folder = joinPath(folder, word)
    previous = word
  }
  if (context.realPath !== undefined) addForms(forms, bounded(context.realPath), [], false)
  return [...forms].slice(0, MAX_PATH_FORMS)
}

function bounded(text: string): string {
  return Buffer.byteLength(text) <= MAX_PATH_BYTES ? text : Buffer.from(text).subarray(0, MAX_PATH_BYTES).toString()
}

function isFolderChange(word: string): boolean {
  return /^(?:cd|pushd|chdir|set-location|-C)$/i.test(word)
}

function joinPath(base: string | undefined, path: string): string {
  return base === undefined || canonicalPath(path).root !== '' ? path : `${base}/${path}`
}

function addForms(forms: Set<string>, text: string, bases: readonly string[], isRooted: boolean): void {
  for (const spelling of spellings(text)) {
    const path = canonicalPath(spelling)
    if (path.names.length === 0 || isWebAddress(pathText(path.root, path.names))) continue
    if (path.root !== '') addAbsolute(forms, path)
    else {
      for (const base of bases) addAbsolute(forms, canonicalPath(`${base}/${spelling}`))
      if (!isRooted) forms.add(pathText('', path.names))
    }
  }
}

function addAbsolute(forms: Set<string>, path: CanonicalPath): void {
  const home = homeOf(path)
  if (path.root === '~') forms.add(pathText(ANY_HOME, path.names))
  if (home === undefined || !path.root.startsWith('~')) forms.add(pathText(path.root, path.names))
  else for (const place of homesOf(home.user)) forms.add(pathText('/', [...place, ...home.rest]))
  if (home !== undefined) forms.add(pathText('~', home.rest))
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
  const { root, names } = parsed
  const home = homeOf(parsed)
  if (root === '') return [suffixKey(names), ...relativeKeys(names)]
  if (root === '~' || (home !== undefined && /[*?]/.test(home.user))) {
    const rest = home?.rest ?? names
    return [pathText('~', rest), ...relativeKeys(rest)]
  }
  if (home === undefined) return [pathText(root, names), ...relativeKeys(names)]
  const written = root.startsWith('~') ? homesOf(home.user).map((place) => pathText('/', [...place, ...home.rest])) : []
  const own = written.length > 0 ? written : [pathText(root, names)]
  return [...own, pathText(ANY_HOME, home.rest), ...relativeKeys(home.rest)]
}

/** Every key a question's forms are to be looked up by: the forms themselves and the ends of each. */
export function lookupKeys(forms: readonly string[]): string[] {
  const keys = new Set(forms)
  for (const form of forms) {
    const names = form
      .split('/')
      .filter((name, place) => name !== '' && !(place === 0 && /^(?:~\+?|[a-z]:)$/.test(name)))
    for (let count = 1; count <= Math.min(names.length, MAX_SUFFIX_NAMES); count++)
      keys.add(suffixKey(names.slice(-count)))
  }
  return [...keys]
}

function suffixKey(names: readonly string[]): string {
  return `**/${names.slice(-MAX_SUFFIX_NAMES).join('/')}`
}

function relativeKeys(names: readonly string[]): string[] {
  const keys: string[] = []
  for (let start = Math.max(0, names.length - MAX_SUFFIX_NAMES); start <= names.length - 2; start++) {
    keys.push(names.slice(start).join('/'))
  }
  return keys
}
