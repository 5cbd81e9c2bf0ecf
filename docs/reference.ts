import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { openApiDocument } from '@wardline/contract'
import { createLog, openDeps, readConfig, settings, simulateDetector, version } from '@wardline/server'
import type { Command } from 'commander'
import { createProgram } from '../packages/cli/src/command.ts'
import { guessWords } from '../packages/policy/src/guess.ts'
import { toolTable } from '../packages/sdk/src/tool-table.ts'
import { guards } from './guards.ts'
import { incidentFormat } from './incident-format.ts'

const generated = 'Made by `npm run docs`; edits here are lost.'
/** Columns of the help texts, whatever the terminal that they are made in. */
const helpWidth = 100

const tableRow = (...cells: string[]): string => `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
const code = (text: string): string => `\`${text}\``

const defaultOf = ({ unset, meaning }: { unset: string | undefined; meaning: string }): string =>
  unset === undefined ? (meaning.includes('Default: `none`') ? 'depends' : 'none') : code(unset)

function configuration(): string {
  const rows = Object.values(settings).map((setting) => {
    const names = 'secret' in setting ? `${code(setting.env)}, ${code(`${setting.env}_FILE`)}` : code(setting.env)
    return tableRow(names, defaultOf(setting), `${setting.meaning}.`)
  })
  return `# Configuration

${generated}

Every setting is an environment variable. An empty value counts as unset. Where a second name ending in \`_FILE\` stands, it holds the path of a file with the value. The service checks all of them before it starts, reports every fault at once and ends with exit code 78; it also refuses names beginning with \`WARDLINE_\` that it does not know. \`wardline config\` prints what is in effect, without secrets.

${tableRow('Variable', 'Default', 'Meaning')}
|---|---|---|
${rows.join('\n')}
`
}

interface Described {
  meaning: string
  columns: Map<string, string>
}

const sentence = (comment: string | undefined): string => comment?.replaceAll(/\s*\n\s*\*\s*/g, ' ').trim() ?? ''

const tableType = /(?:\/\*\* ((?:(?!\*\/).)*) \*\/\n)?(?:export )?interface (\w+) \{\n(.*?)\n\}/gs
const columnType = /(?:\/\*\* ((?:(?!\*\/)[\s\S])*) \*\/\s*)?^ {2}(\w+): (.+)$/gm

/** The values of a column that has a closed list of them, then what its comment says. */
function columnMeaning(comment: string | undefined, type: string): string {
  const values = [...type.matchAll(/'(\w+)'/g)].map(([, value]) => code(String(value)))
  const choice = values.length > 1 ? `One of ${values.join(', ')}.` : ''
  return [choice, sentence(comment)].filter((part) => part !== '').join(' ')
}

/** What the types of the tables say in their comments, by table. */
function describedTables(source: string): Map<string, Described> {
  const byType = new Map<string, Described>()
  for (const [, comment, name = '', body = ''] of source.matchAll(tableType)) {
    const columns = [...body.matchAll(columnType)].map(
      ([, note, column = '', type = '']) => [column, columnMeaning(note, type)] as const,
    )
    byType.set(name, { meaning: sentence(comment), columns: new Map(columns) })
  }
  const lists = source.matchAll(/interface \w+Tables \{\n(.*?)\n\}/gs)
  const names = [...lists].map(([, list]) => list).join('\n')
  return new Map([...names.matchAll(/(\w+): (\w+)/g)].map(([, table = '', type = '']) => [table, byType.get(type)!]))
}

/** A database as the service makes it at its first start. */
async function withNewDatabase<Result>(read: (connection: DatabaseSync) => Result): Promise<Result> {
  const dataDir = mkdtempSync(join(tmpdir(), 'wardline-docs-'))
  try {
    const deps = await openDeps(readConfig({ WARDLINE_DATA_DIR: dataDir }), { log: createLog('silent') })
    await deps.close()
    const connection = new DatabaseSync(join(dataDir, 'wardline.db'), { readOnly: true })
    try {
      return read(connection)
    } finally {
      connection.close()
    }
  } finally {
    rmSync(dataDir, { recursive: true, force: true })
  }
}

const indexText = (sql: string): string => sql.replace(/^create index /i, '').replaceAll(/\s+/g, ' ')

function describeTable(connection: DatabaseSync, table: string, described: Described | undefined): string {
  const columns = connection.prepare(`select name, type, "notnull", pk from pragma_table_info(?)`).all(table)
  const known = [...(described?.columns.keys() ?? [])].sort().join()
  const stored = columns.map(({ name }) => String(name)).sort()
  if (known !== stored.join()) {
    throw new Error(`db/schema/ describes other columns of ${table} than the migrations make: ${known}; ${stored}.`)
  }
  const rows = columns.map(({ name, type, notnull, pk }) =>
    tableRow(
      code(String(name)),
      String(type).toLowerCase(),
      pk ? 'key' : notnull ? '' : 'null',
      described!.columns.get(String(name)) ?? '',
    ),
  )
  const indexes = connection
    .prepare(`select sql from sqlite_master where type = 'index' and tbl_name = ? and sql is not null order by name`)
    .all(table)
    .map(({ sql }) => `- ${code(indexText(String(sql)))}`)
  const parts = [
    `## ${table}`,
    described!.meaning,
    [tableRow('Column', 'Type', 'Key or null', 'Meaning'), '|---|---|---|---|', ...rows].join('\n'),
  ]
  if (indexes.length > 0) parts.push(`Indexes:\n\n${indexes.join('\n')}`)
  return parts.filter((part) => part !== '').join('\n\n')
}

async function schema(): Promise<string> {
  const folder = new URL('../packages/server/src/db/schema/', import.meta.url)
  const sources = readdirSync(folder).map((name) => readFileSync(new URL(name, folder), 'utf8'))
  const described = describedTables(sources.join('\n'))
  const tables = await withNewDatabase((connection) =>
    connection
      .prepare(`select name from sqlite_master where type = 'table' and name not like 'sqlite_%' order by name`)
      .all()
      .map(({ name }) => describeTable(connection, String(name), described.get(String(name)))),
  )
  return `# Database schema

${generated}

Times are epoch milliseconds, flags 0 or 1, JSON is text. The tables are not an interface: read them, but write only through the service.

${tables.join('\n\n')}
`
}

function leaves(command: Command, names: string[]): [string, Command][] {
  if (command.commands.length === 0) return [[names.join(' '), command]]
  return command.commands.flatMap((child) => leaves(child, [...names, child.name()]))
}

async function commandLine(): Promise<string> {
  const sections = leaves(await createProgram(), ['wardline']).map(([name, command]) => {
    command.configureHelp({ helpWidth })
    return `## ${name}\n\n\`\`\`\n${command.helpInformation().trimEnd()}\n\`\`\``
  })
  return `# Command line

${generated}

In a clone of the repository, write \`npx wardline\`.

${sections.join('\n\n')}
`
}

/** The generated pages by file name, as they must stand in docs/reference. */
const simulated = { agents: 20, days: 8, seed: 14 }

function detector(): string {
  const rows = simulateDetector(simulated).map(({ kind, warnings, criticals, found, samples }) =>
    tableRow(kind, String(warnings), String(criticals), `${found} %`, String(samples)),
  )
  return `# What the anomaly detector reports

${generated}

Normal traffic should raise nothing, and a runaway should be found. This is \`wardline detector simulate --agents ${simulated.agents} --days ${simulated.days} --seed ${simulated.seed}\`: one sample every five minutes; warnings and criticals in one day of 1,000 agents with one metric, after one day of learning, with no fleet to compare with. A runaway is the larger of 10 times the mean, 3 times the 99.9th percentile, and 5, for 15 minutes; the last column is the median number of samples until it is reported. The tests run the same for 1,000 agents and 30 days every night.

${tableRow('Normal traffic', 'Warnings', 'Criticals', 'Runaways found', 'After samples')}
|---|---|---|---|---|
${rows.join('\n')}
`
}

export async function referencePages(): Promise<Record<string, string>> {
  return {
    'openapi.json': `${JSON.stringify(openApiDocument(version), null, 2)}\n`,
    'configuration.md': configuration(),
    'schema.md': await schema(),
    'cli.md': await commandLine(),
    'detector.md': detector(),
    'incident-bundle.md': incidentFormat(generated),
    'guards.md': guards(generated),
  }
}

/** Returns the Python client with the tables that the SDK and the policies have. */
export function pythonClient(text: string): string {
  const lines = (value: object, indent: string): string =>
    Object.entries(value)
      .map(
        ([name, inner]) =>
          `${indent}'${name}': ${typeof inner === 'string' ? literal(inner, indent) : `{\n${lines(inner, `${indent}    `)}\n${indent}}`},`,
      )
      .join('\n')
  const literal = (words: string, indent: string): string => {
    const parts = words.match(/.{1,90}(?: |$)/g)!.map((part) => `'${part}'`)
    return parts.length === 1 ? parts[0]! : `(\n${parts.map((part) => `${indent}    ${part}\n`).join('')}${indent})`
  }
  const table = `_TOOL_TABLE: Dict[str, Dict[str, str]] = {\n${lines(toolTable, '    ')}\n}\n`
  const words = `_GUESS_WORDS: Dict[str, str] = {\n${lines(guessWords, '    ')}\n}\n`
  return text
    .replace(/(?<=# begin tool table: .*\n)[\s\S]*(?=# end tool table)/, () => table)
    .replace(/(?<=# begin guess words: .*\n)[\s\S]*(?=# end guess words)/, () => words)
}
