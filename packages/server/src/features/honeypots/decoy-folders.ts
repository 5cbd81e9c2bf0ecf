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

/** Folders per check that are compared with those of decoys; commands of honest agents name fewer. */
const maxSwept = 256

/** Cost of joining, spelling and comparing one name of a path. */
const unitsOfName = 300

/** A folder with such a name contains private files; others are places to work in. */
const guardedName = /^\.|secret|credential|keystore|private|wallet|passw|vault|backup/

/** Keys of the folder that contains a decoy, and of the folders above it. */
interface FolderKeys {
  own: string[]
  above: string[]
}

/**
 * A home, a drive and folders directly below the root are searched every day, so they count as above even if the decoy is
 * directly in them. A decoy without a root has no folders above, and its own folder only counts with several names or a
 * specific one.
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
  /** Folders that the agent works in, where reading everything is no sign of searching for secrets. */
  workplaces: string[]
  others: string[]
}

/** Finds the folders whose whole content a command reads, in every spelling in which a decoy's folder may be stored. */
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

/** Returns the working folder after the command. A sweep between two changes of folder counts for the last folder. */
function lastFolder(text: string, from: CanonicalPath | undefined): CanonicalPath | undefined {
  const changes = allCommands(text).filter(([verb, target]) => target && isFolderChange(verb!.plain))
  return changes
    .slice(0, maxFolders)
    .reduce((folder, [, target]) => fromFolderOr(folder, canonicalPath(target!.plain)), from)
}
