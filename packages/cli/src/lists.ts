import { readFileSync } from 'node:fs'
import { type ListStored, type ListSummary, listLimits } from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import { type Command, InvalidArgumentError } from 'commander'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { textTable } from './text-table.ts'

/** Reads a file of entries, one a line; lines that begin with `#` are comments. */
const entriesIn = (file: string): string[] =>
  readFileSync(file, 'utf8')
    .split(/\r\n|[\n\r]/)
    .map((line) => line.replace(/^\ufeff/, '').trim())
    .filter((line) => line !== '' && !line.startsWith('#'))

/** Parser of the repeatable option `--list <name>=<file>`. */
function listOption(value: string, before: ReadonlyMap<string, string[]> = new Map()): Map<string, string[]> {
  const [, name, file] = /^([a-z0-9_-]{1,64})=(.+)$/s.exec(value) ?? []
  if (name === undefined || file === undefined) {
    throw new InvalidArgumentError('Write <name>=<file>, such as allowed-hosts=hosts.txt.')
  }
  let entries: string[]
  try {
    entries = entriesIn(file)
  } catch (fault) {
    throw new InvalidArgumentError(`The file ${file} cannot be read (${(fault as NodeJS.ErrnoException).code}).`)
  }
  if (entries.length > listLimits.entries) {
    throw new InvalidArgumentError(
      `The file ${file} has ${entries.length} entries; ${listLimits.entries} are possible.`,
    )
  }
  const long = entries.find((entry) => [...entry].length > listLimits.entryLength)
  if (long !== undefined) {
    throw new InvalidArgumentError(
      `The entry ${long.slice(0, 20)}… has more than ${listLimits.entryLength} characters.`,
    )
  }
  return new Map([...before, [name, [...new Set(entries)]]])
}

/** Adds the option for the lists that rules in files name. */
export const withLists = (command: Command): Command =>
  command.option(
    '--list <name=file>',
    'entries of a list that rules name, one a line; lines that begin with # are comments; repeatable',
    listOption,
  )

const entriesText = (count: number): string => (count === 1 ? '1 entry' : `${count.toLocaleString('en')} entries`)

async function list(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const { lists } = await call('listLists', {})
  if (flags.json) return console.log(safeJson({ lists }, 2))
  if (lists.length === 0) return console.error('No lists; `wardline lists create <name>` creates one.')
  const rows = lists.map(({ name, count, rules, version, changed_at, changed_by, description }: ListSummary) =>
    [name, String(count), String(rules.length), String(version), changed_at, changed_by ?? '-', description].map(
      sanitize,
    ),
  )
  console.log(textTable([['NAME', 'ENTRIES', 'RULES', 'VERSION', 'CHANGED', 'BY', 'DESCRIPTION'], ...rows]))
}

/** Prints entries alone to standard output, so that they may be written to a file and imported again. */
async function show(name: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const found = await call('getList', { params: { name } })
  if (flags.json) return console.log(safeJson(found, 2))
  const { version, description, count, rules, entries } = found
  const about = description === '' ? '' : `: ${description}`
  console.error(sanitize(`${found.name}, version ${version}, ${entriesText(count)}${about}`))
  for (const rule of rules) console.error(sanitize(`used by ${rule.title} (${rule.id})`))
  for (const entry of entries) console.log(sanitize(entry))
}

function storedText(stored: ListStored, { json }: ServiceFlags): string {
  if (json) return safeJson(stored, 2)
  const { name, version, count, added, removed } = stored
  return `List ${sanitize(name)}: ${entriesText(count)}, ${added} added, ${removed} removed (version ${version}).`
}

async function create(name: string, { description, ...flags }: ServiceFlags & { description?: string }): Promise<void> {
  const { call } = await findService(flags)
  const body = { entries: [], version: 0, ...(description === undefined ? {} : { description }) }
  console.log(storedText(await call('putList', { params: { name }, body }), flags))
}

async function change(name: string, body: { add?: string[]; remove?: string[] }, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  console.log(storedText(await call('changeListEntries', { params: { name }, body }), flags))
}

/** Replaces the version that it found; the service refuses if the list was changed in between. */
async function importFile(name: string, file: string, flags: ServiceFlags): Promise<void> {
  const entries = entriesIn(file)
  const { call } = await findService(flags)
  const { lists } = await call('listLists', {})
  const version = lists.find((each) => each.name === name)?.version ?? 0
  console.log(storedText(await call('putList', { params: { name }, body: { entries, version } }), flags))
}

async function remove(name: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  await call('deleteList', { params: { name } })
  console.log(flags.json ? safeJson({ ok: true, name }, 2) : `List ${name} is deleted.`)
}

/** A name that is not possible is a mistake of the command line. */
function listName(name: string): string {
  if (/^[a-z0-9_-]{1,64}$/.test(name)) return name
  throw new InvalidArgumentError('A name has at most 64 lower-case letters, digits, _ and -.')
}

export function addLists(program: Command): void {
  const lists = program.command('lists').description('manage lists of hosts, addresses, paths or texts that rules name')
  withService(
    lists
      .command('ls', { isDefault: true })
      .description('list the lists, with their entries counted and the rules that use them'),
  ).action(list)
  const named = (name: string, description: string) =>
    lists.command(name).description(description).argument('<name>', 'name of the list', listName)
  withService(named('show', 'print the entries of a list, one a line')).action(show)
  withService(
    named('create', 'create an empty list').option('--description <text>', 'what is in it, for people'),
  ).action(create)
  withService(named('add', 'add entries to a list').argument('<entries...>', 'entries to add')).action(
    (name: string, add: string[], flags: ServiceFlags) => change(name, { add }, flags),
  )
  withService(named('remove', 'remove entries from a list').argument('<entries...>', 'entries to remove')).action(
    (name: string, entries: string[], flags: ServiceFlags) => change(name, { remove: entries }, flags),
  )
  withService(
    named('import', 'replace the entries of a list by those of a file; creates the list where there is none').argument(
      '<file>',
      'one entry a line; lines that begin with # are comments',
    ),
  ).action(importFile)
  withService(named('delete', 'delete a list that no rule uses')).action(remove)
}
