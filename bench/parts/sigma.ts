import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { parseRules } from '../../packages/server/src/features/rules/language/rule.ts'
import { RuleSet } from '../../packages/server/src/features/rules/language/rule-set.ts'
import { ruleStates } from '../../packages/server/src/features/rules/language/rule-state.ts'
import { exampleRow } from '../../packages/server/src/features/rules/language/rule-tests.ts'
import { importSigma } from '../../packages/server/src/features/rules/language/sigma-import.ts'
import { ValueMemory } from '../../packages/server/src/features/rules/language/value-memory.ts'
import type { Figure } from '../report.ts'

/** Folders of rules in SigmaHQ's repository. */
const ruleFolders = [
  'rules',
  'rules-compliance',
  'rules-dfir',
  'rules-emerging-threats',
  'rules-placeholder',
  'rules-threat-hunting',
]
const regressionFolder = 'regression_data'
const shownMisses = 10

type Fields = Record<string, unknown>

const filesIn = (folder: string, ending: string): string[] =>
  existsSync(folder)
    ? readdirSync(folder, { recursive: true, encoding: 'utf8' })
        .filter((file) => file.endsWith(ending))
        .map((file) => join(folder, file))
    : []

/** Rules that a file imports as; a text if it is refused. */
function imported(file: string): string[] | string {
  const { rules, faults } = importSigma([{ name: basename(file), text: readFileSync(file, 'utf8') }])
  return faults.length > 0 ? faults[0]!.sentence : rules.map(({ text }) => text)
}

function measureImport(files: readonly string[]): Figure {
  const refusals = new Map<string, number>()
  for (const file of files) {
    const found = imported(file)
    // Names and numbers differ from rule to rule.
    const reason = typeof found === 'string' ? found.replace(/:.*/, '').replace(/(list )\S+|\d+/g, '$1…') : undefined
    if (reason !== undefined) refusals.set(reason, (refusals.get(reason) ?? 0) + 1)
  }
  const refused = [...refusals.values()].reduce((sum, count) => sum + count, 0)
  return {
    name: 'rules that import',
    value: (100 * (files.length - refused)) / files.length,
    unit: '%',
    min: 99,
    sides: [],
    notes: [
      `${files.length - refused} of ${files.length}`,
      ...[...refusals].toSorted((a, b) => b[1] - a[1]).map(([reason, count]) => `refused ${count}: ${reason}`),
    ],
    faults: [],
  }
}

/** Fields of a recorded Windows event, as agents of a log collector name them. */
function fieldsOf({ Event }: { Event: { System: Fields; EventData?: Fields; UserData?: Record<string, Fields> } }) {
  const { System, EventData, UserData } = Event
  const id = System.EventID
  const EventID = typeof id === 'object' && id !== null ? (id as Fields)['#text'] : id
  return { EventID, Channel: System.Channel, ...EventData, ...Object.values(UserData ?? {})[0] }
}

/** Whether one of the recorded events matches one of the rules. */
function matches(texts: readonly string[], recording: string): boolean {
  // Some files have several documents, one after the other.
  const events = recording.split(/\n(?=\{)/).map((text) => fieldsOf(JSON.parse(text)))
  return texts.some((text) => {
    const compiled = parseRules(text).rules[0]!.rule
    const set = new RuleSet([{ compiled, state: ruleStates.start(compiled), history: new ValueMemory() }])
    return events.some((metadata, index) => {
      const row = exampleRow(index + 1, Date.UTC(2026, 0, 5) + index, { metadata })
      return set.take({ row, tags: [] }).length > 0
    })
  })
}

function measureRecordings(files: readonly string[], folder: string): Figure {
  const byId = new Map<string, string>()
  for (const file of files) {
    const id = /^id:\s*(\S+)/m.exec(readFileSync(file, 'utf8'))?.[1]
    if (id !== undefined) byId.set(id, file)
  }
  const recordings = filesIn(join(folder, regressionFolder), '.json')
  const missed = recordings.filter((recording) => {
    const file = byId.get(basename(recording, '.json'))
    const rules = file === undefined ? 'no rule' : imported(file)
    return typeof rules === 'string' || !matches(rules, readFileSync(recording, 'utf8'))
  })
  return {
    name: 'recorded attacks that match',
    value: (100 * (recordings.length - missed.length)) / recordings.length,
    unit: '%',
    min: 99,
    sides: [],
    notes: [
      `${recordings.length - missed.length} of ${recordings.length}`,
      ...missed
        .slice(0, shownMisses)
        .map((file) => `missed: ${file.slice(folder.length + regressionFolder.length + 2)}`),
    ],
    faults: [],
  }
}

/**
 * How many rules of SigmaHQ import, and how many of its recorded attacks match the rule that they were recorded for.
 * `folder` is a clone of https://github.com/SigmaHQ/sigma; without one nothing is measured.
 */
export async function measureSigma(folder?: string): Promise<Figure[]> {
  if (folder === undefined) return []
  const files = ruleFolders.flatMap((name) => filesIn(join(folder, name), '.yml'))
  if (files.length === 0)
    throw new Error(`${folder} is not a clone of SigmaHQ's repository: it has no folder of rules.`)
  return [measureImport(files), measureRecordings(files, folder)]
}
