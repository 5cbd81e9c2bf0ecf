/**
 * A normalized path. `root` is `/`, a drive as `c:`, `~` for the home of an unnamed user, `~name` for a named one, or
 * empty for a relative path.
 */
export interface CanonicalPath {
  root: string
  names: string[]
  /** Number of levels by which a relative path leaves its start folder. */
  ups?: number
}

/**
 * Normalizes a path of any system: look-alike and invisible characters folded, lower case (macOS and Windows ignore
 * case by default), `\` as `/`, doubled slashes, `.` and `..` resolved without touching a disk, device prefixes,
 * `/proc/<pid>/root`, drive mounts and variables for known places replaced. Decoys and checked paths both pass through
 * here, so folding two names into one can cause a false match but cannot hide a decoy.
 */
export function canonicalPath(path: string): CanonicalPath {
  const text = withVariablesNamed(withPlainCharacters(path).toLowerCase().replaceAll('\\', '/').trim())
  const plain = text.replace(/^\/[/?][?.]\/(?:unc\/|global\/)?/, '/')
  const resolved = resolve(plain)
  return resolved.root === '/' ? withoutAlias(resolved.names) : resolved
}

const upward = ({ ups = 0 }: CanonicalPath): string => '../'.repeat(ups)

/** Whether a folder has enough names that appending more cannot change its root, mount or home. */
export function isSettled({ root, names, ups }: CanonicalPath): boolean {
  return root !== '' && names.length >= 3 && names[0] !== 'proc' && ups === undefined
}

/** Resolves a relative path from a folder; returns any other path unchanged. */
export function fromFolder(folder: CanonicalPath, path: CanonicalPath): CanonicalPath {
  if (path.root !== '') return path
  if (isSettled(folder) && path.ups === undefined) return { root: folder.root, names: folder.names.concat(path.names) }
  const start = pathText(folder.root, folder.names)
  return canonicalPath(`${upward(folder)}${start === '' ? '' : `${start}/`}${upward(path)}${path.names.join('/')}`)
}

/** Compatibility forms, slashes that Unicode normalization does not fold, and invisible characters. */
function withPlainCharacters(text: string): string {
  if (isAscii(text)) return text
  return text
    .replace(/[\u00ad\u200b-\u200f\u2060\ufeff]/g, '')
    .normalize('NFKC')
    .replace(/[\u2044\u2215\u29f8]/g, '/')
    .replace(/[\u2216\u29f5\u29f9]/g, '\\')
}

/** Most paths are ASCII and skip the expensive Unicode normalization. */
function isAscii(text: string): boolean {
  return !/[^\0-\x7f]/.test(text)
}

/** Shell and Windows variables for known places. */
const variables: ReadonlyArray<readonly [RegExp, string]> = [
  [/^(?:\$home|\$\{home(?::?-[^}]*)?\}|%userprofile%|%homedrive%%homepath%|\$env:(?:userprofile|home))(?=\/|$)/, '~'],
  [/^(?:%appdata%|\$env:appdata)(?=\/|$)/, '~/appdata/roaming'],
  [/^(?:%localappdata%|\$env:localappdata)(?=\/|$)/, '~/appdata/local'],
  [/^(?:\$xdg_config_home|\$\{xdg_config_home\})(?=\/|$)/, '~/.config'],
  [/^(?:%programdata%|%allusersprofile%|\$env:programdata)(?=\/|$)/, 'c:/programdata'],
  [/^(?:%systemroot%|%windir%|\$env:systemroot|\$env:windir)(?=\/|$)/, 'c:/windows'],
  [/^(?:%systemdrive%|\$env:systemdrive)(?=\/|$)/, 'c:'],
  [/^(?:\$pwd|\$\{pwd\}|%cd%|~\+)(?=\/|$)/, '.'],
]

function withVariablesNamed(text: string): string {
  if (!/^[$%~]/.test(text)) return text
  for (const [variable, place] of variables) {
    if (variable.test(text)) return text.replace(variable, place)
  }
  return text
}

function resolve(text: string): CanonicalPath {
  let root = text.startsWith('/') ? '/' : ''
  let names: string[] = []
  let ups = 0
  for (const raw of text.split('/')) {
    const name = withoutWindowsExtras(raw)
    const isFirst = names.length === 0 && root !== '~'
    if (name === '' || name === '.') continue
    if (name === '..') {
      if (names.length > 0) names.pop()
      else if (root.startsWith('~')) [root, names] = ['/', ['home']]
      else ups++
    } else if (isFirst && root === '' && name.startsWith('~')) {
      root = name
    } else if (isFirst && /^[a-z]:/.test(name) && (root === '' || root === '/')) {
      root = name.slice(0, 2)
      if (name.length > 2) names.push(name.slice(2))
    } else {
      names.push(name)
      // `/proc/<pid>/root` is the root; `/proc/<pid>/cwd` is a working directory that only the agent knows.
      if (root === '/' && isProcessLink(names, 'root')) names = []
      if (root === '/' && isProcessLink(names, 'cwd')) [root, names, ups] = ['', [], 0]
    }
  }
  return root === '' && ups > 0 ? { root, names, ups } : { root, names }
}

function isProcessLink(names: readonly string[], link: string): boolean {
  if (names[0] !== 'proc' || names.at(-1) !== link) return false
  return names.length === 3 || (names.length === 5 && names[2] === 'task')
}

/** Windows ignores dots and spaces at the end of a name, and `::$DATA` names the file's own content. */
function withoutWindowsExtras(raw: string): string {
  const name = raw.replace(/:[^:]*:\$[a-z_0-9]+$/, '')
  const trimmed = name.trimEnd()
  if (trimmed === '.' || trimmed === '..') return trimmed
  let end = name.length
  while (end > 0 && (name[end - 1] === '.' || name[end - 1] === ' ')) end--
  return end === 0 ? name : name.slice(0, end)
}

/**
 * Replaces second names of the same place: macOS volumes, and Windows drives as mounted by WSL, Cygwin, MSYS or as a
 * share.
 */
function withoutAlias(names: readonly string[]): CanonicalPath {
  const text = `/${names.join('/')}`
  const drive = /^\/(?:(?:mnt|cygdrive)\/([a-z])|([a-z])(?=\/users\/|\/programdata\/|\/windows\/))(?=\/|$)/.exec(text)
  const share = /^\/(?:localhost|127\.0\.0\.1)\/([a-z])\$(?=\/|$)/.exec(text)
  const letter = drive?.[1] ?? drive?.[2] ?? share?.[1]
  const depth = letter === undefined ? 0 : (drive ?? share)![0].split('/').length - 1
  if (letter !== undefined) return { root: `${letter}:`, names: names.slice(depth) }
  if (text.startsWith('/system/volumes/data/')) return { root: '/', names: names.slice(3) }
  if (/^\/private\/(?:etc|var|tmp)(?=\/|$)/.test(text)) return { root: '/', names: names.slice(1) }
  return { root: '/', names: [...names] }
}

/** Returns the user whose home contains an absolute path, and the names below that home; undefined outside homes. */
export function homeOf({ root, names }: CanonicalPath): { user: string; rest: string[] } | undefined {
  if (root.length > 1 && root.startsWith('~')) return { user: root.slice(1), rest: names }
  const [first, second] = names
  if (root === '/' && first === 'root') return { user: 'root', rest: names.slice(1) }
  if (root === '/' && first === 'var' && second === 'root') return { user: 'root', rest: names.slice(2) }
  const isHomes = root === '/' ? first === 'home' || first === 'users' : isDrive(root) && isWindowsHomes(first)
  return isHomes && second !== undefined ? { user: second, rest: names.slice(2) } : undefined
}

function isDrive(root: string): boolean {
  return root.endsWith(':')
}

function isWindowsHomes(name: string | undefined): boolean {
  return name === 'users' || name === 'documents and settings'
}

/** Formats a path as text: `/etc/hosts`, `c:/windows`, `~/.ssh`, `a/b`. */
export function pathText(root: string, names: readonly string[]): string {
  if (root === '') return names.join('/')
  return root === '/' ? `/${names.join('/')}` : [root, ...names].join('/')
}
