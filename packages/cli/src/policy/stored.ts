import type { PolicyList, PolicyMode, PolicyStored, PolicySummary, PolicyView } from '@wardline/contract'
import { safeJson, sanitize } from '@wardline/text'
import { Argument, type Command } from 'commander'
import { Failure } from '../exit.ts'
import { withService } from '../service/options.ts'
import { findService, type Service } from '../service/service.ts'
import type { ServiceFlags } from '../service/settings.ts'
import { textTable } from '../text-table.ts'
import { readTools, readWhole } from './files.ts'

const heads = ['ID', 'MODE', 'VERSION', 'RULES', 'FLOW', 'FOR', 'TITLE', 'FILE']

const whomText = ({ agents, tags }: PolicySummary['for']): string =>
  [agents, tags]
    .filter((names) => names.length > 0)
    .map((names) => names.join(' or '))
    .join(' with ') || 'every agent'

/** Formats one line per policy. */
function policyTable(policies: readonly PolicySummary[]): string {
  const rows = policies.map(({ id, mode, version, rules, flow, for: whom, enforce_for, title, file }) => [
    id,
    enforce_for && mode === 'observe' ? 'observe*' : mode,
    String(version),
    String(rules.length),
    flow,
    sanitize(whomText(whom)),
    sanitize(title),
    sanitize(file ?? '-'),
  ])
  return textTable([heads, ...rows])
}

async function list(flags: ServiceFlags): Promise<void> {
  const { call } = await findService(flags)
  const reply: PolicyList = await call('listPolicies', {})
  if (flags.json) return console.log(safeJson(reply, 2))
  if (reply.policies.length > 0) console.log(policyTable(reply.policies))
  else console.error('No policies are stored; wardline policy add <file> stores one.')
  for (const { mode, enforce_for, title } of reply.policies) {
    if (enforce_for && mode === 'observe')
      console.error(sanitize(`* ${title} is enforced for ${whomText(enforce_for)}`))
  }
  for (const { file, error } of reply.file_faults) console.error(sanitize(`${file}: ${error}`))
}

/** Finds a policy by its id or title. */
export async function idOf({ call }: Pick<Service, 'call'>, given: string): Promise<string> {
  const { policies } = await call('listPolicies', {})
  if (policies.some(({ id }) => id === given)) return given
  const titled = policies.filter(({ title }) => title === given)
  const [only] = titled
  if (only && titled.length === 1) return only.id
  const ids = titled.map(({ id }) => id).join(', ')
  throw only
    ? new Failure(
        `${titled.length} policies have the title ${given}: ${ids}; name one by its id.`,
        'conflict',
        'refused',
      )
    : new Failure(`No policy with the id or title ${given}; wardline policy list shows them.`, 'not_found', 'refused')
}

async function show(given: string, flags: ServiceFlags & { revision?: string }): Promise<void> {
  const service = await findService(flags)
  const params = { id: await idOf(service, given) }
  const policy: PolicyView = await service.call('getPolicy', { params, query: { version: flags.revision } })
  if (flags.json) return console.log(safeJson(policy, 2))
  console.error(policyTable([policy]))
  console.error()
  console.log(
    policy.text
      .split('\n')
      .map((line) => sanitize(line))
      .join('\n')
      .trimEnd(),
  )
}

function storedText({ id, version, mode }: PolicyStored): string {
  const next = mode === 'observe' ? `; wardline policy mode ${id} enforce enforces it` : ''
  return `Policy ${id} is stored: version ${version}, mode ${mode}${next}.`
}

async function add(file: string, flags: ServiceFlags & { replace?: string; tools?: string }): Promise<void> {
  const service = await findService(flags)
  const tools = flags.tools === undefined ? {} : { tools: await readTools(flags.tools) }
  const body = { policy: await readWhole(file), ...tools }
  const stored =
    flags.replace === undefined
      ? await service.call('createPolicy', { body })
      : await service.call('replacePolicy', { params: { id: await idOf(service, flags.replace) }, body })
  console.log(flags.json ? safeJson(stored, 2) : storedText(stored))
}

async function setMode(given: string, mode: PolicyMode, flags: ServiceFlags): Promise<void> {
  const service = await findService(flags)
  const stored = await service.call('setPolicyMode', { params: { id: await idOf(service, given) }, body: { mode } })
  console.log(flags.json ? safeJson(stored, 2) : `Policy ${stored.id} is in mode ${stored.mode}.`)
}

async function remove(given: string, flags: ServiceFlags): Promise<void> {
  const service = await findService(flags)
  const id = await idOf(service, given)
  await service.call('deletePolicy', { params: { id } })
  console.log(flags.json ? safeJson({ ok: true, id }, 2) : `Policy ${id} is deleted.`)
}

/** Returns the text of a stored policy. */
export async function readStored(given: string, flags: ServiceFlags): Promise<string> {
  const service = await findService(flags)
  const params = { id: await idOf(service, given) }
  return (await service.call('getPolicy', { params, query: {} })).text
}

/** Adds the commands for policies stored in a service. */
export function addStoredPolicies(policy: Command): void {
  const onOne = (name: string, description: string) =>
    policy.command(name).description(description).argument('<policy>', 'id or title of the policy')
  withService(policy.command('list').description('list the policies of the service, with mode and agents')).action(list)
  withService(onOne('show', 'print the text of a policy').option('--revision <number>', 'an earlier version')).action(
    show,
  )
  withService(
    policy
      .command('add')
      .description('store a policy; it is checked first, and agents get it with their next heartbeat')
      .argument('<file>', 'policy, YAML or JSON')
      .option('--replace <policy>', 'store it as the next version of this policy, by id or title')
      .option(
        '--tools <file>',
        'what the servers answer to tools/list: arguments that a tool does not have are refused',
      ),
  ).action(add)
  withService(
    onOne('mode', 'switch a policy: observe records what it would have said, enforce decides').addArgument(
      new Argument('<mode>', 'observe or enforce').choices(['observe', 'enforce']),
    ),
  ).action(setMode)
  withService(onOne('delete', 'delete a policy; its versions are kept')).action(remove)
}
