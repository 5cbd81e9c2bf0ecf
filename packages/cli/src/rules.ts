import { mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { loadRuleFiles } from '@wardline/server'
import { counted, safeJson, sanitize } from '@wardline/text'
import { type Command, InvalidArgumentError } from 'commander'
import { exitCodes } from './exit.ts'
import { withLists } from './lists.ts'
import { addStoredRules } from './stored-rules.ts'
import { textTable } from './text-table.ts'

interface JsonOption {
  json?: boolean
}

interface ListOption {
  list?: Map<string, string[]>
}

interface Fault {
  line: number
  column: number
  sentence: string
}

interface FileFault extends Fault {
  file: string
}

function addFile(file: string, before: string[] = []): string[] {
  const found = statSync(file, { throwIfNoEntry: false })
  if (found === undefined) throw new InvalidArgumentError('It does not exist.')
  if (found.isDirectory()) throw new InvalidArgumentError('It is a folder.')
  return [...before, file]
}

const read = (file: string): string => readFileSync(file, 'utf8')

/** Rules may come from untrusted sources, so their texts are sanitized for the terminal. */
const faultLine = ({ file, line, column, sentence }: FileFault): string =>
  sanitize(`${file}:${line}:${column}: ${sentence}`)

const inFile = (file: string, faults: readonly Fault[]): FileFault[] => faults.map((fault) => ({ file, ...fault }))

function end(hasFailed: boolean): void {
  if (hasFailed) process.exitCode = exitCodes.failed
}

async function lint(files: string[], { json, list }: JsonOption & ListOption): Promise<void> {
  const { lintRules } = await loadRuleFiles()
  let others = 0
  const results = files.map((file) => {
    const linted = lintRules(read(file), others, list)
    others = linted.cost
    return { file, ...linted }
  })
  const faults = results.flatMap(({ file, faults: found }) => inFile(file, found))
  const notes = results.flatMap(({ file, notes: found }) => inFile(file, found))
  end(faults.length > 0)
  if (json) return console.log(safeJson({ faults, notes }, 2))
  for (const fault of faults) console.log(faultLine(fault))
  for (const { sentence, ...place } of notes) console.log(faultLine({ ...place, sentence: `note: ${sentence}` }))
  const rules = results.reduce((sum, { titles }) => sum + titles.length, 0)
  if (faults.length === 0) console.error(`-- ${counted(rules, 'rule')}, no faults`)
}

async function test(files: string[], { json, list }: JsonOption & ListOption): Promise<void> {
  const { testRules } = await loadRuleFiles()
  const results = files.map((file) => ({ file, ...testRules(read(file), list) }))
  const faults = results.flatMap(({ file, faults: found, rules }) => [
    ...inFile(file, found),
    ...rules.flatMap(({ failed }) => inFile(file, failed)),
  ])
  end(faults.length > 0)
  const rules = results.flatMap(({ file, rules: tested }) => tested.map((rule) => ({ file, ...rule })))
  if (json) {
    const listed = rules.map(({ file, title, passed, failed }) => ({ file, title, passed, failed: failed.length }))
    return console.log(safeJson({ rules: listed, faults }, 2))
  }
  for (const { title, passed, failed } of rules) {
    const verdict = failed.length === 0 ? 'passed' : 'FAILED'
    console.log(sanitize(`${verdict}  ${title} (${passed} of ${counted(passed + failed.length, 'case')})`))
  }
  for (const fault of faults) console.log(faultLine(fault))
}

/** Prints notes to standard error, so that standard output contains only rules and may be redirected to a file. */
function print(text: string, notes: readonly string[], faults: readonly FileFault[]): void {
  for (const fault of faults) console.error(faultLine(fault))
  end(faults.length > 0)
  if (faults.length > 0) return
  for (const note of notes) console.error(`-- ${sanitize(note)}`)
  process.stdout.write(text)
}

/** Returns the name of a file for a rule. */
const fileNameOf = (title: string): string =>
  title
    .toLowerCase()
    .replaceAll(/[^a-z0-9]+/g, '-')
    .replaceAll(/^-|-$/g, '')
    .slice(0, 80) || 'rule'

interface ImportOptions extends ListOption {
  output?: string
}

/** Converts what it can, file by file: one that cannot be converted does not hold back the others. */
async function importFiles(files: string[], { output, list }: ImportOptions): Promise<void> {
  const { importSigma } = await loadRuleFiles()
  const texts = files.map((name) => ({ name, text: read(name) }))
  const { rules, notes, faults } = importSigma(texts, list)
  for (const fault of faults) console.error(faultLine(fault))
  for (const note of notes) console.error(`-- ${sanitize(note)}`)
  end(faults.length > 0)
  if (output === undefined) process.stdout.write(rules.map(({ text }) => text).join('---\n'))
  else writeRules(output, rules)
  const refused = new Set(faults.map(({ file }) => file)).size
  const left = refused === 0 ? '' : `, ${counted(refused, 'file')} with faults`
  console.error(`-- ${counted(rules.length, 'rule')} imported${left}`)
}

/** Writes each rule to a file of its name, and keeps files that exist. */
function writeRules(folder: string, rules: readonly { title: string; text: string }[]): void {
  mkdirSync(folder, { recursive: true })
  const used = new Map<string, number>()
  for (const { title, text } of rules) {
    const name = fileNameOf(title)
    const count = (used.get(name) ?? 0) + 1
    used.set(name, count)
    writeNew(join(folder, `${name}${count === 1 ? '' : `-${count}`}.yml`), text)
  }
}

/** Keeps the user's changes. */
function writeNew(file: string, text: string): void {
  if (statSync(file, { throwIfNoEntry: false })) console.error(`-- ${file} exists and is not changed`)
  else writeFileSync(file, text)
}

async function exportFiles(files: string[]): Promise<void> {
  const { exportSigma } = await loadRuleFiles()
  const exported = files.map((file) => ({ file, ...exportSigma(read(file)) }))
  const faults = exported.flatMap(({ file, faults: found }) => inFile(file, found))
  const notes = exported.flatMap((each) => each.notes)
  print(exported.map(({ text }) => text).join('---\n'), notes, faults)
}

interface StarterOptions extends JsonOption {
  output?: string
}

async function starter({ output, json }: StarterOptions): Promise<void> {
  const rules = (await loadRuleFiles()).starterRules()
  if (output === undefined) {
    return console.log(json ? safeJson(rules, 2) : textTable(rules.map(({ name, title }) => [name, title])))
  }
  mkdirSync(output, { recursive: true })
  for (const { name, text } of rules) writeNew(join(output, `${name}.yml`), text)
  console.error(`-- ${counted(rules.length, 'rule')} in ${output}`)
}

export function addRules(program: Command): void {
  const rules = program
    .command('rules')
    .description('check, test and convert detection rules in files, and run them in a service')
  withLists(
    rules
      .command('lint')
      .description(
        'check rules: faults as file:line:column, and notes on probable mistakes; exit code 1 when there is a fault',
      )
      .argument('<files...>', 'files of rules, YAML or JSON', addFile)
      .option('--json', 'print JSON, also for errors'),
  ).action(lint)
  withLists(
    rules
      .command('test')
      .description('run the tests of rules; exit code 1 when a case fails')
      .argument('<files...>', 'files of rules, YAML or JSON', addFile)
      .option('--json', 'print JSON, also for errors'),
  ).action(test)
  withLists(
    rules
      .command('import')
      .description('convert Sigma rules, filters and correlations to rules; exit code 1 when a file has a fault')
      .argument('<files...>', 'files of Sigma rules; correlations and filters may name rules of other files', addFile)
      .option(
        '-o, --output <folder>',
        'write each rule to a file in this folder, default: print all; existing files are kept',
      ),
  ).action(importFiles)
  rules
    .command('export')
    .description('print rules as Sigma rules and correlations')
    .argument('<files...>', 'files of rules, YAML or JSON', addFile)
    .action(exportFiles)
  rules
    .command('starter')
    .description('list starter rules, or write them to a folder')
    .option('-o, --output <folder>', 'write each to a file in this folder; existing files are kept')
    .option('--json', 'print JSON, also for errors')
    .action(starter)
  addStoredRules(rules)
}
