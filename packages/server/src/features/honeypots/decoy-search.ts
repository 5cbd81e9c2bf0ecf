import type { HitForm } from '@wardline/contract'
import type { Deps } from '../../deps.ts'
import type { Principal } from '../../http/auth.ts'
import { type Piece, type Slices, type WorkBudget, workLane } from '../../work-turns.ts'
import { createDecoyDigest, type DigestKind } from './decoy-digest.ts'
import { sweptForms } from './decoy-folders.ts'
import { mayTrip } from './decoy-scope.ts'
import { keyFormIn } from './found-form.ts'
import { KeySearch } from './key-extraction.ts'
import { decoyPathKeys, lookupKeys, type PathContext, type PathForms, pathForms } from './path-forms.ts'
import { PatternIndex } from './pattern-index.ts'
import { createDigestLookup, type Decoy, readDigests, readExactPaths, readPatterns } from './queries.ts'
import { globCovers, queryGlobs } from './query-globs.ts'

/**
 * Maximum cost of a check, less than 100 ms for a text and a third of that for a command. 64 KiB of source code,
 * documents, JSON or minified code cost 10 to 40 million units, and 64 million at most (a test of validators full of
 * escapes): the answer to an honest agent must not be partial, since clients deny the call then.
 */
export const keyCheckUnits = 100_000_000
/** Twice the most that 4 KiB of code or of a script have cost. */
export const pathCheckUnits = 40_000_000
/** Budget for comparing globs with every decoy path that can match for the caller: 16 globs with 10,000 paths. */
const globUnits = 60_000_000
const unitsOfDigest = 1_300

/** Digests per query; other queries run in between. */
const lookupPageDigests = 4_000
/** Rows per slice of comparing with a glob; other work runs in between. */
const globPageRows = 1_000
/** Decoy paths whose keys are cached for the next glob, because many instances have the same ones. */
const keptPaths = 20_000

/** A longer check waits for its turn before the first slice, because many such texts may arrive together. */
const longText = 8 * 1024

export interface Found {
  /** Decoys that match. */
  decoys: Decoy[]
  /** Decoys in or below a folder that a command reads as a whole, which may be part of ordinary work. */
  swept: Decoy[]
  /** Whether the check exceeded its budget: the text may contain more than was found. */
  isExhausted: boolean
  /** In which form the decoy occurred in the checked text. */
  formOf(decoy: Decoy): Promise<HitForm>
}

/** The budget of one part of a check, and the owner of its turns. */
interface Paid {
  budget: WorkBudget
  piece: Piece
}

export function createDecoySearch({ database, secrets }: Pick<Deps, 'database' | 'secrets'>) {
  const digest = createDecoyDigest(secrets.decoyKey)
  const findByDigests = createDigestLookup(database)
  const pathNames = new Map<string, string[][]>()
  let patterns = new PatternIndex()
  let patternDecoys = new Map<string, Decoy[]>()
  let patternIds = ''

  function* digestsOf(kind: DigestKind, forms: readonly string[], budget: WorkBudget): Slices<string[]> {
    const digests: string[] = []
    for (const form of forms) {
      // The cost was charged when the form was found; here only check when to yield.
      digests.push(digest(kind, form))
      budget.count(unitsOfDigest + form.length)
      if (budget.isSliceOver()) yield
    }
    return digests
  }

  async function lookUp(
    kind: DigestKind,
    forms: readonly string[],
    { budget, piece }: Paid,
    made: string[] = [],
  ): Promise<Decoy[]> {
    const found: Decoy[] = []
    for (let start = 0; start < forms.length; start += lookupPageDigests) {
      const page = forms.slice(start, start + lookupPageDigests)
      const digests = await piece.inTurns(digestsOf(kind, page, budget))
      made.push(...digests)
      found.push(...(await findByDigests(digests)))
    }
    return found
  }

  function namesOf(path: string): string[][] {
    const known = pathNames.get(path)
    if (known) return known
    if (pathNames.size >= keptPaths) pathNames.clear()
    const names = decoyPathKeys(path).map((key) => key.split('/'))
    pathNames.set(path, names)
    return names
  }

  function* covered(globs: readonly string[][], page: readonly Decoy[], budget: WorkBudget): Slices<Decoy[]> {
    const found: Decoy[] = []
    for (const decoy of page) {
      const names = namesOf(decoy.path!)
      if (!budget.take(100 + globs.length * names.length * 40)) return found
      if (globs.some((glob) => globCovers(glob, names))) found.push(decoy)
      if (budget.isSliceOver()) yield
    }
    return found
  }

  async function findByGlobs(forms: PathForms, { instances }: Principal, { budget, piece }: Paid): Promise<Decoy[]> {
    const globs = await piece.inTurns(queryGlobs(forms, budget))
    const found: Decoy[] = []
    for (let after = ''; globs.length > 0 && !budget.isSpent; ) {
      const page = await readExactPaths(database.db, instances ?? undefined, after, globPageRows)
      found.push(...(await piece.inTurns(covered(globs, page, budget))))
      if (page.length < globPageRows) break
      after = page.at(-1)!.id
    }
    return found
  }

  /** `digests`: of the candidates, in the same order. */
  async function keyForm(decoy: Decoy, text: string, candidates: readonly string[], digests: readonly string[]) {
    const known = await readDigests(database.db, decoy.id)
    const matched = candidates[digests.findIndex((digest) => known.has(digest))]
    return matched === undefined ? 'encoded' : keyFormIn(text, matched)
  }

  async function findSwept(path: string, context: PathContext, principal: Principal, paid: Paid) {
    const isHere = (decoy: Decoy) => mayTrip(principal, decoy)
    const { workplaces, others } = await paid.piece.inTurns(sweptForms(path, context, paid.budget))
    const decoys = (await lookUp('folder', others, paid)).filter(isHere)
    if (decoys.length > 0) return { decoys, swept: [] }
    const swept = [
      ...(await lookUp('folder', workplaces, paid)),
      ...(await lookUp('above', [...workplaces, ...others], paid)),
    ]
    return { decoys, swept: swept.filter(isHere) }
  }

  return {
    async findKeys(text: string, piece: Piece): Promise<Found> {
      const budget = piece.budget(keyCheckUnits)
      if (text.length > longText) await piece.nextTurn()
      const search = new KeySearch(text, budget)
      const candidates = await piece.inTurns(search.plainCandidates())
      const digests: string[] = []
      let decoys = await lookUp('key', candidates, { budget, piece }, digests)
      if (decoys.length === 0) {
        piece.yieldToOthers()
        const nested = await piece.inTurns(search.nestedCandidates())
        candidates.push(...nested)
        decoys = await lookUp('key', nested, { budget, piece }, digests)
      }
      const formOf = (decoy: Decoy) => keyForm(decoy, text, candidates, digests)
      return { decoys, swept: [], isExhausted: budget.isExhausted, formOf }
    },

    /** Finds the keys that a text has in plain sight. Returns the decoys of each key: one may be planted at several agents. */
    async findWritten(text: string, piece: Piece) {
      const budget = piece.budget(keyCheckUnits)
      const candidates = await piece.inTurns(new KeySearch(text, budget).writtenCandidates())
      const digests: string[] = []
      const decoys = await lookUp('key', candidates, { budget, piece }, digests)
      const byKey = new Map<string | undefined, Decoy[]>()
      for (const decoy of decoys) {
        const known = await readDigests(database.db, decoy.id)
        const matched = candidates[digests.findIndex((digest) => known.has(digest))]
        byKey.set(matched, [...(byKey.get(matched) ?? []), decoy])
      }
      const keys = [...byKey].map(([matched, found]) => {
        const form: HitForm = matched === undefined ? 'encoded' : keyFormIn(text, matched)
        return { decoys: found, form }
      })
      return { keys, isExhausted: budget.isExhausted }
    },

    /**
     * Finds decoys in any of the paths or commands. Paths belong to one host, so a bound caller only matches decoys of its
     * instances and of every agent.
     */
    async findPaths(
      paths: readonly string[],
      context: PathContext,
      principal: Principal,
      piece: Piece,
    ): Promise<Found> {
      const isHere = (decoy: Decoy) => mayTrip(principal, decoy)
      const budget = piece.budget(pathCheckUnits)
      const paid = { budget, piece }
      const { cwd = '', realPath = '' } = context
      const length = paths.reduce((sum, path) => sum + path.length, cwd.length + realPath.length)
      if (length > longText) await piece.nextTurn()
      const forms = new Map<string, number>()
      for (const path of paths) {
        for (const [form, written] of await piece.inTurns(pathForms(path, context, budget))) {
          forms.set(form, Math.max(written, forms.get(form) ?? 0))
        }
      }
      const texts = [...forms.keys()]
      const exact = await lookUp('path', await piece.inTurns(lookupKeys(texts, budget)), paid)
      const fitting = await piece.inTurns(patterns.find(texts, budget))
      const byPattern = [...fitting].flatMap((pattern) => patternDecoys.get(pattern) ?? [])
      const decoys = [...exact, ...byPattern].filter(isHere)
      if (decoys.length > 0) {
        const formOf = async (decoy: Decoy): Promise<HitForm> => (exact.includes(decoy) ? 'path' : 'pattern')
        return { decoys, swept: [], isExhausted: budget.isExhausted, formOf }
      }
      const inFolders: Decoy[] = []
      const swept: Decoy[] = []
      for (const path of paths) {
        const found = await findSwept(path, context, principal, paid)
        inFolders.push(...found.decoys)
        swept.push(...found.swept)
      }
      if (inFolders.length > 0)
        return { decoys: inFolders, swept, isExhausted: budget.isExhausted, formOf: async () => 'folder' }
      const globBudget = piece.budget(globUnits)
      const byGlob = (await findByGlobs(forms, principal, { budget: globBudget, piece })).filter(isHere)
      const isExhausted = budget.isExhausted || globBudget.isExhausted
      return { decoys: byGlob, swept, isExhausted, formOf: async () => 'glob' }
    },

    /** Reloads the patterns if they changed. */
    async refresh(): Promise<void> {
      const rows = await readPatterns(database.db)
      const ids = rows.map(({ id }) => id).join()
      if (ids === patternIds) return
      const decoysOf = Map.groupBy(rows, ({ path }) => path!)
      const piece = workLane.open('decoy patterns', { max: Infinity })
      patterns = await piece
        .inTurns(PatternIndex.build(decoysOf.keys(), piece.budget(Number.MAX_SAFE_INTEGER)))
        .finally(() => piece.end())
      patternDecoys = decoysOf
      patternIds = ids
    },
  }
}
