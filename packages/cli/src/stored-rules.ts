import { readFileSync } from 'node:fs'
import {
  atlasVersion,
  coverageOf,
  packPrefix,
  packsOf,
  type RuleList,
  type RuleMode,
  type RuleView,
  ruleLimits,
} from '@wardline/contract'
import { counted, safeJson, sanitize } from '@wardline/text'
import type { Command } from 'commander'
import { addBacktest } from './backtest.ts'
import { exitCodes } from './exit.ts'
import { withService } from './service/options.ts'
import { findService } from './service/service.ts'
import type { ServiceFlags } from './service/settings.ts'
import { textTable } from './text-table.ts'

const heads = ['ID', 'MODE', 'VERSION', 'SEVERITY', 'FIRED 24 H', 'LAST', 'TITLE', 'FILE']

const suppressedText = (span: string, firings: string): string =>
  `Suppressed in ${span}: ${firings}, beyond ${ruleLimits.minuteFirings} per agent and minute.`

/** Formats one line per rule. */
function ruleTable({ rules }: Pick<RuleList, 'rules'>): string {
  const rows = rules.map((rule) => [
    rule.id,
    rule.mode,
    String(rule.version),
    rule.severity,
    String(rule.firings_24h),
    rule.last_fired_at ?? '-',
    sanitize(rule.title),
    sanitize(rule.file ?? '-'),
  ])
  return textTable([heads, ...rows])
}

async function list(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply: RuleList = await call('listRules', {})
  if (flags.json) return console.log(safeJson(reply, 2))
  if (reply.rules.length > 0) console.log(ruleTable(reply))
  else console.error('No rules are stored; wardline rules add <file> stores one.')
  for (const { id, suppressed_24h } of reply.rules) {
    if (suppressed_24h > 0)
      console.error(suppressedText('24 hours', `${counted(suppressed_24h, 'firing')} of rule ${id}`))
  }
  for (const { file, error } of reply.file_faults) console.error(sanitize(`${file}: ${error}`))
  const { lag_events } = reply.runner
  if (lag_events > 0) console.error(`The rules are ${counted(lag_events, 'event')} behind.`)
}

async function show(id: string, flags: ServiceFlags & { revision?: string }): Promise<void> {
  const { call } = await findService(flags)
  const rule: RuleView = await call('getRule', { params: { id }, query: { version: flags.revision } })
  if (flags.json) return console.log(safeJson(rule, 2))
  console.error(ruleTable({ rules: [rule] }))
  for (const name of rule.lists ?? [])
    console.error(`uses the list ${sanitize(name)}: wardline lists show ${sanitize(name)}`)
  console.error()
  console.log(
    rule.text
      .split('\n')
      .map((line) => sanitize(line))
      .join('\n')
      .trimEnd(),
  )
}

async function firings(id: string, flags: ServiceFlags & { limit?: string }): Promise<void> {
  const { call } = await findService(flags)
  const reply = await call('listRuleFirings', { params: { id }, query: { limit: flags.limit } })
  if (flags.json) return console.log(safeJson(reply, 2))
  if (reply.firings.length === 0) return console.error('The rule did not fire in the last 7 days.')
  const rows = reply.firings.map((firing) => [
    firing.at,
    firing.mode,
    sanitize(firing.group.join(', ')),
    String(firing.count),
    firing.event_id,
    firing.responses.map(({ action, target, result }) => sanitize(`${action} ${target ?? ''} ${result}`)).join(', '),
  ])
  console.log(textTable([['AT', 'MODE', 'GROUP', 'COUNT', 'EVENT', 'RESPONSES'], ...rows]))
  const suppressed = reply.hours.reduce((sum, hour) => sum + hour.suppressed, 0)
  if (suppressed > 0) console.error(suppressedText('7 days', counted(suppressed, 'firing')))
}

async function add(file: string, flags: ServiceFlags & { replace?: string }): Promise<void> {
  const { call } = await findService(flags)
  const body = { rule: readFileSync(file, 'utf8') }
  const { replace } = flags
  const stored =
    replace === undefined
      ? await call('createRule', { body })
      : await call('replaceRule', { params: { id: replace }, body })
  if (flags.json) console.log(safeJson(stored, 2))
  else console.log(`Rule ${stored.id} is stored: version ${stored.version}, mode ${stored.mode}.`)
}

async function listPacks(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const packs = packsOf((await call('listRules', {})).rules)
  if (flags.json) {
    const listed = packs.map(({ rules, ...pack }) => ({ ...pack, rules: rules.map(({ id }) => id) }))
    return console.log(safeJson(listed, 2))
  }
  if (packs.length === 0) return console.error('No rule has a tag pack.<name>; `wardline rules list` lists the rules.')
  const rows = packs.map(({ name, purpose, rules, modes, firings_7d }) => [
    sanitize(`${packPrefix}${name}`),
    ...[rules.length, modes.observe, modes.alert, modes.enforce, firings_7d].map(String),
    purpose ?? '-',
  ])
  console.log(textTable([['PACK', 'RULES', 'OBSERVE', 'ALERT', 'ENFORCE', 'FIRED 7 D', 'FOR'], ...rows]))
}

async function coverage(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const { tactics, covered, total, unknown } = coverageOf((await call('listRules', {})).rules)
  if (flags.json) {
    const listed = tactics.map((tactic) => ({
      ...tactic,
      techniques: tactic.techniques.map(({ rules, ...technique }) => ({
        ...technique,
        rules: rules.map(({ id, title, mode, firings_7d }) => ({ id, title, mode, firings_7d })),
      })),
    }))
    return console.log(safeJson({ atlas_version: atlasVersion, tactics: listed, covered, total, unknown }, 2))
  }
  const rows = tactics.flatMap(({ name: tactic, techniques }) =>
    techniques.flatMap(({ id, name, rules }) => {
      if (rules.length === 0) return [[tactic, id, name, '-', '-', '-']]
      return rules.map(({ mode, firings_7d, title }) => [tactic, id, name, mode, String(firings_7d), sanitize(title)])
    }),
  )
  console.log(textTable([['TACTIC', 'TECHNIQUE', 'NAME', 'MODE', 'FIRED 7 D', 'RULE'], ...rows]))
  console.error(`-- ${covered} of ${total} techniques of MITRE ATLAS ${atlasVersion} covered`)
  if (unknown.length > 0) console.error(sanitize(`-- Tags without a technique: ${unknown.join(', ')}`))
}

async function setPackMode(pack: string, mode: RuleMode, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const { changed, unchanged, refused } = await call('setPackMode', { body: { pack, mode } })
  if (refused.length > 0) process.exitCode = exitCodes.failed
  if (flags.json) return console.log(safeJson({ mode, changed, unchanged, refused }, 2))
  console.log(
    sanitize(
      `${counted(changed.length, 'rule')} of ${packPrefix}${pack} switched to mode ${mode}, ${unchanged} in it before.`,
    ),
  )
  for (const { title, file } of refused)
    console.error(sanitize(`${title} is read from the file ${file}: change it there.`))
}

async function setMode(id: string, mode: RuleMode, flags: ServiceFlags): Promise<void> {
  if (id.startsWith(packPrefix)) return setPackMode(id.slice(packPrefix.length), mode, flags)
  const { call } = await findService(flags)
  const stored = await call('setRuleMode', { params: { id }, body: { mode } })
  console.log(flags.json ? safeJson(stored, 2) : `Rule ${stored.id} is in mode ${stored.mode}.`)
}

/** Selects mode `enforce` if the rule has responses other than alerts, else `alert`. */
async function enable(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const { responses } = await call('getRule', { params: { id } })
  await setMode(id, responses.some((action) => action !== 'alert') ? 'enforce' : 'alert', flags)
}

async function remove(id: string, flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  await call('deleteRule', { params: { id } })
  console.log(flags.json ? safeJson({ ok: true, id }, 2) : `Rule ${id} is deleted. Its suspensions stay.`)
}

const modes: Record<RuleMode, string> = {
  observe: 'only record what the rule would do',
  alert: 'record and alert',
  enforce: 'record, alert and make the responses of the rule',
}

/** Adds the commands for rules stored in a service. */
export function addStoredRules(rules: Command): void {
  withService(rules.command('list').description('list the rules of the service, with their mode and firings')).action(
    list,
  )
  withService(
    rules.command('packs').description('list the packs of the rules, by the tag pack.<name>, with modes and firings'),
  ).action(listPacks)
  withService(
    rules
      .command('coverage')
      .description('list the techniques of MITRE ATLAS with the rules that cover them, by the tags atlas.<id>'),
  ).action(coverage)
  withService(
    rules
      .command('show')
      .description('print the text of a rule')
      .argument('<id>', 'id of the rule')
      .option('--revision <number>', 'an earlier version'),
  ).action(show)
  withService(
    rules
      .command('firings')
      .description('list the firings of a rule, with their events and responses')
      .argument('<id>', 'id of the rule')
      .option('--limit <number>', 'number of firings, at most 200; default: 50'),
  ).action(firings)
  withService(
    rules
      .command('add')
      .description('store a rule; its tests are run first')
      .argument('<file>', 'file with one rule, YAML or JSON')
      .option('--replace <id>', 'store it as the next version of this rule'),
  ).action(add)
  withService(
    rules
      .command('enable')
      .description('switch a rule on: enforce where it has responses besides alerts, else alert')
      .argument('<id>', 'id of the rule'),
  ).action(enable)
  addBacktest(rules)
  for (const [mode, meaning] of Object.entries(modes)) {
    withService(
      rules
        .command(mode)
        .description(`switch a rule, or all rules of a pack, to mode ${mode}: ${meaning}`)
        .argument('<rule>', 'id of the rule, or a pack such as pack.coding-agents'),
    ).action((id: string, flags: ServiceFlags) => setMode(id, mode as RuleMode, flags))
  }
  withService(rules.command('delete').description('delete a rule').argument('<id>', 'id of the rule')).action(remove)
}
