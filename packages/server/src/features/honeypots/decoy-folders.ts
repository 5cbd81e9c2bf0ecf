import type { Slices, WorkBudget } from '../../work-turns.ts'
import { type CanonicalPath, canonicalPath, fromFolder, homeOf, pathText } from './canonical-path.ts'
import {
  absoluteTexts,
  belowHome,
  boundedPath,
  decoyPathKeys,
  isAnyHome,
  isFolderChange,
  maxFolders,
  maxPathBytes,
  type PathContext,
  relativeKeys,
  rootedKeys,
} from './path-forms.ts'
import { hasWildcard } from './path-pattern.ts'
import { allCommands, sweeps } from './path-sweeps.ts'

/** Folders of one question that are compared with those of decoys; no command of an honest agent names as many. */
const maxSwept = 64

/** What a name of a path costs that is put together, spelled and compared. */
const unitsOfName = 300

/** A folder with such a name contains private files; others are places to work in. */
const guardedName = /^\.|secret|credential|keystore|private|wallet|passw|vault|backup/

/** The keys of the folder that a decoy lies in, and of those further up. */
interface FolderKeys {
  own: string[]
  above: string[]
}

/**
 * A home, a drive and what lies directly under the root are searched every day, and so is a folder that only the end
 * of a path is known of, unless its name says what it is for: they count as above.
 */
export function decoyFolderKeys(path: string): FolderKeys {
  const whole = canonicalPath(/[/\\]$/.test(path.trimEnd()) ? `${path}/**` : path)
  const { root, names } = whole
  const wild = names.findIndex(hasWildcard)
  const folder: CanonicalPath = { root, names: names.slice(0, wild < 0 ? -1 : wild) }
  const isKnown = wild < 0 || wild === names.length - 1
  if (root === '') {
    const isSpecific = folder.names.length > 1 || guardedName.test(folder.names.at(-1) ?? '')
    return { own: isKnown && isSpecific ? decoyPathKeys(folder.names.join('/')) : [], above: [] }
  }
  const ancestors = ancestorsOf(folder)
  const isOwn = isKnown && belowHome(folder).length > (homeOf(folder) || root === '~' ? 0 : 1)
  const own = isOwn ? [...rootedKeys(folder), ...relativeKeys(belowHome(folder))] : []
  return { own: [...new Set(own)], above: [...new Set([...(isOwn ? [] : textsOf(folder)), ...ancestors])] }
}

const textsOf = (path: CanonicalPath): string[] =>
  path.names.length === 0 ? [pathText(path.root, [])] : rootedKeys(path)

function ancestorsOf(folder: CanonicalPath): string[] {
  const above: string[] = []
  for (let count = folder.names.length - 1; count >= 0; count--) {
    above.push(...textsOf({ root: folder.root, names: folder.names.slice(0, count) }))
  }
  if (isAnyHome(folder) || homeOf(folder)) above.push('/', '/home', '/users', 'c:', 'c:/users')
  return above
}

interface SweptForms {
  /** Folders in which a decoy lies by accident if it does: the agent works in them. */
  workplaces: string[]
  others: string[]
}

/** The folders that a command reads with all that lies in them, in every spelling that a decoy's may be stored in. */
export function* sweptForms(command: string, { cwd }: PathContext, budget: WorkBudget): Slices<SweptForms> {
  const text = boundedPath(command)
  const swept: SweptForms = { workplaces: [], others: [] }
  if (!budget.take(text.length * 20)) return swept
  const found = sweeps(text)
  if (found.length > maxSwept) budget.exhaust()
  const home = cwd === undefined ? undefined : canonicalPath(boundedPath(cwd))
  const working = home === undefined ? [] : formsOf(home)
  const starts = [home, lastFolder(text, home)]
  for (const { folder, from } of found.slice(0, maxSwept)) {
    for (const start of new Set(starts)) {
      if (!budget.take(folder.length * 20 + (start?.names.length ?? 0) * unitsOfName)) break
      const base = from === undefined ? start : fromFolderOr(start, canonicalPath(from))
      const path = fromFolderOr(base, canonicalPath(folder))
      const forms = path.root === '' && path.names.length === 0 ? [] : formsOf(path)
      const isWorkplace =
        forms.some((form) =>
          working.some((place) => place === form || place.startsWith(form === '/' ? '/' : `${form}/`)),
        ) && !belowHome(path).some((name) => guardedName.test(name))
      swept[isWorkplace ? 'workplaces' : 'others'].push(...forms.filter((form) => form.length <= maxPathBytes))
      if (budget.isSliceOver()) yield
    }
  }
  return { workplaces: [...new Set(swept.workplaces)], others: [...new Set(swept.others)] }
}

const formsOf = (path: CanonicalPath): string[] => (path.root === '' ? [pathText('', path.names)] : absoluteTexts(path))

const fromFolderOr = (start: CanonicalPath | undefined, path: CanonicalPath): CanonicalPath =>
  start === undefined ? path : fromFolder(start, path)

/** Where the command stands at its end. One that sweeps between two changes of folder is taken to sweep the last. */
function lastFolder(text: string, from: CanonicalPath | undefined): CanonicalPath | undefined {
  const changes = allCommands(text).filter(([verb, target]) => target && isFolderChange(verb!.plain))
  return changes
    .slice(0, maxFolders)
    .reduce((folder, [, target]) => fromFolderOr(folder, canonicalPath(target!.plain)), from)
}
