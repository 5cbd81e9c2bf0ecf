import { createHash } from 'node:crypto'

interface Mutant {
  id: string
  fileName: string
  location: { start: { line: number; column: number }; end: { line: number; column: number } }
  mutatorName: string
  replacement: string
}

const { MUTATION_SEED: seed, MUTATION_SHARE: share } = process.env

/** Depends on the seed and on the mutant, not on those beside it. */
function isSampled({ fileName, location, mutatorName, replacement }: Mutant): boolean {
  const { start, end } = location
  const file = fileName.split('packages').at(-1)
  const name = [seed, file, start.line, start.column, end.line, end.column, mutatorName, replacement].join('|')
  return createHash('sha256').update(name).digest().readUInt32BE() < Number(share) * 2 ** 32
}

/** Stryker has no samples. It leaves out what a checker says does not compile. */
const check = async (mutants: Mutant[]) =>
  Object.fromEntries(
    mutants.map((mutant) => [
      mutant.id,
      isSampled(mutant) ? { status: 'passed' } : { status: 'compileError', reason: 'not in the sample' },
    ]),
  )

/** All mutants in one message. */
const group = async (mutants: Mutant[]) => [mutants.map(({ id }) => id)]

/** A plugin of Stryker, which loads it by the path in its configuration. */
export const strykerPlugins = [
  { kind: 'Checker', name: 'sample', factory: () => ({ init: async () => {}, check, group }) },
]
