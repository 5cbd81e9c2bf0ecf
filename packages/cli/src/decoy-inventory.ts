import type { DecoyAllowList, DecoyPreset, NewDecoyIgnore, Planting, Rotated } from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import { type Command, Option } from 'commander'
import { Failure } from './exit.ts'
import { durationOption, endOption } from './instant.ts'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { textTable } from './text-table.ts'

/** Sanitizes a key for the terminal, but keeps the line breaks of a private key. */
export const keyText = (key: string): string =>
  key
    .split('\n')
    .map((line) => sanitize(line))
    .join('\n')

const kindOf = ({ keyType, path }: DecoyPreset): string => (keyType === undefined ? `path ${path}` : `key ${keyType}`)

async function presets(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('listHoneypotPresets', {})
  if (flags.json) return console.log(safeJson(reply, 2))
  const text = reply.presets.map((preset) => {
    const lines = preset.snippet === '' ? [] : preset.snippet.split('\n').map((line) => `    ${sanitize(line)}`)
    return [`${sanitize(kindOf(preset))}: ${sanitize(preset.title)}, in ${sanitize(preset.place)}`, ...lines].join('\n')
  })
  console.log(text.join('\n'))
}

async function planted(id: string, { note, file, ...flags }: ServiceFlags & Planting): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('noteDecoyPlanted', { params: { id }, body: { note, file } })
  console.log(flags.json ? safeJson(reply, 2) : `Decoy ${sanitize(reply.id)} is noted as planted.`)
}

async function rotate(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply: Rotated = await call('rotateDecoy', { params: { id } })
  if (flags.json) return console.log(safeJson(reply, 2))
  console.error(
    `Decoy ${sanitize(reply.id)} (${reply.keyType}) replaces ${sanitize(reply.replaces)}, which still matches. Its key is shown once:`,
  )
  console.log(keyText(reply.key))
}

async function testHit(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('testDecoy', { params: { id } })
  if (flags.json) return console.log(safeJson(reply, 2))
  console.log(`A test hit of decoy ${sanitize(reply.id)} is recorded as event ${sanitize(reply.event_id)}.`)
}

async function ignores(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('listDecoyIgnores', {})
  if (flags.json) return console.log(safeJson(reply, 2))
  if (reply.ignores.length === 0) return console.error('No ignore rules.')
  console.log(
    textTable(
      reply.ignores.map(({ id, tool, until, created_by, reason }) =>
        [id, tool, `until ${until}`, `by ${created_by}`, reason].map(sanitize),
      ),
    ),
  )
}

interface IgnoreOptions extends ServiceFlags, Pick<NewDecoyIgnore, 'reason'> {
  /** Milliseconds. */
  for?: number
  until?: string
}

async function ignore(tool: string, { for: lasts, until: end, reason, ...flags }: IgnoreOptions): Promise<void> {
  const until = lasts === undefined ? end : new Date(Date.now() + lasts).toISOString()
  if (until === undefined)
    throw new Failure('Option --for <duration> or --until <instant> is required, such as --for 30d.', 'usage', 'usage')
  const { call } = await findService(flags)
  const reply = await call('createDecoyIgnore', { body: { tool, reason, until } })
  if (flags.json) return console.log(safeJson(reply, 2))
  console.log(
    `Hits by ${sanitize(tool)} raise no breach until ${until} (${sanitize(reply.id)}); calls are still denied.`,
  )
}

async function unignore(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('deleteDecoyIgnore', { params: { id } })
  console.log(flags.json ? safeJson(reply, 2) : `Ignore rule ${sanitize(reply.id)} is deleted.`)
}

/** Returns a regular expression for the files that a decoy path covers, below any home or checkout. */
function pathExpression(path: string): string {
  const names = path.replaceAll('\\', '/').replace(/^~?\//, '')
  const body = names.replace(/\*\*|[*?]|[^\w/]/g, (sign) =>
    sign === '**' ? '.*' : sign === '*' ? '[^/]*' : sign === '?' ? '[^/]' : `\\${sign}`,
  )
  return `(^|/)${body}$`
}

/** Formats a Gitleaks allow-list. A quote would end the TOML string, so it is escaped. */
function gitleaksText({ paths }: Pick<DecoyAllowList, 'paths'>): string {
  const expressions = [...new Set(paths.map(({ path }) => pathExpression(sanitize(path)).replaceAll("\\'", '\\x27')))]
  return [
    '[[allowlists]]',
    'description = "Decoys"',
    'paths = [',
    ...expressions.map((text) => `  '''${text}''',`),
    ']',
  ].join('\n')
}

async function allowList({ format, ...flags }: ServiceFlags & { format: 'paths' | 'gitleaks' }): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('exportDecoyAllowList', {})
  if (flags.json) return console.log(safeJson(reply, 2))
  if (reply.unplaced.length > 0) {
    const ids = reply.unplaced.map(sanitize).join(', ')
    console.error(
      `No file is noted for ${ids}: a secret scanner will report them. Note one: wardline decoys planted <id> --note <text> --file <path>`,
    )
  }
  console.log(format === 'gitleaks' ? gitleaksText(reply) : reply.paths.map(({ path }) => sanitize(path)).join('\n'))
}

export function addInventory(decoys: Command): void {
  withService(decoys.command('presets').description('list decoys worth planting, with the lines to plant')).action(
    presets,
  )
  const planting = decoys
    .command('planted <id>')
    .description('note where a decoy is planted')
    .requiredOption('--note <text>', 'where it is; never the decoy itself')
    .option('--file <path>', 'the file that holds it, for the allow-list')
  withService(planting).action(planted)
  withService(
    decoys.command('rotate <id>').description('replace a decoy key; the old value is retired and still matches'),
  ).action(rotate)
  withService(decoys.command('test <id>').description('record a test hit, with its alert; suspends nobody')).action(
    testHit,
  )
  withService(decoys.command('ignores').description('list tools whose hits raise no breach')).action(ignores)
  const ignoring = decoys
    .command('ignore <tool>')
    .description('raise no breach for hits by a tool; they are counted and still denied')
    .requiredOption('--reason <text>', 'why')
    .addOption(new Option('--for <duration>', 'duration, at most 90d').argParser(durationOption).conflicts('until'))
    .option('--until <instant>', 'end, as an ISO 8601 instant', endOption)
  withService(ignoring).action(ignore)
  withService(decoys.command('unignore <id>').description('delete an ignore rule')).action(unignore)
  const exporting = decoys
    .command('allow-list')
    .description('list the files that hold decoys, for secret scanners')
    .addOption(
      new Option('--format <format>', 'paths, or the configuration of a scanner')
        .choices(['paths', 'gitleaks'])
        .default('paths'),
    )
  withService(exporting).action(allowList)
}
