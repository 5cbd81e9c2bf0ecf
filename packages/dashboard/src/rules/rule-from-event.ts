import { type EventRow, eventTypes, titleOf, toolCallOf, toolOf } from '@wardline/contract'
import { escapeWildcards, quoteYaml } from '@wardline/text/rule-value'
import { plainText } from '../ui/unseen-characters.ts'

/** Characters of a value to compare: a rule takes 1,000, and each may need an escape. */
const maxValue = 400
const maxValues = 20

const yamlOf = (value: unknown): string =>
  Array.isArray(value)
    ? `[${value.map(yamlOf).join(', ')}]`
    : typeof value === 'object' && value !== null
      ? `{ ${Object.entries(value)
          .map(([name, each]) => `${name}: ${yamlOf(each)}`)
          .join(', ')} }`
      : typeof value === 'boolean'
        ? String(value)
        : quoteYaml(String(value))

/** A selection by a value: a long one by its beginning. */
const selected = (field: string, text: string): [string, string] =>
  text.length <= maxValue
    ? [field, escapeWildcards(text)]
    : [`${field}|startswith`, escapeWildcards(text.slice(0, maxValue))]

const short = (texts: readonly string[]) => texts.filter((text) => text.length <= maxValue).slice(0, maxValues)

/** Fields that characterise an event, as a selection, and the same as an event of a test. */
function partsOf(row: EventRow) {
  const { event_type, source, description, metadata, by_service } = row
  const { action, paths, hosts, command } = toolCallOf(row)
  const tool = toolOf(metadata)
  const isCall = event_type === eventTypes.toolCall
  const lists = [
    ['paths', short(paths)],
    ['hosts', short(hosts)],
  ] as const
  const selection: [string, string | string[] | boolean][] = [['event_type', event_type]]
  if (tool !== null && tool.length <= maxValue) selection.push(['tool', escapeWildcards(tool)])
  if (action !== null && action.length <= maxValue) selection.push(['metadata.action', escapeWildcards(action)])
  if (command !== null) selection.push(selected('metadata.command', command))
  for (const [name, texts] of lists)
    if (texts.length > 0) selection.push([`metadata.${name}`, texts.map(escapeWildcards)])
  // Any client may report the type of an event of the service.
  if (by_service) selection.push(['by_service', true])
  // A call without details, and every other report, is known by its text.
  if (selection.length < (isCall ? 3 : 2)) selection.push(selected('description', description))
  const given = {
    ...(tool === null ? {} : { toolName: tool }),
    ...(action === null ? {} : { action }),
    ...(command === null ? {} : { command }),
    ...Object.fromEntries(lists.filter(([, texts]) => texts.length > 0)),
  }
  const event = {
    event_type,
    source,
    description,
    ...(by_service ? { by_service } : {}),
    ...(Object.keys(given).length === 0 ? {} : { metadata: given }),
  }
  return { selection, event }
}

/** A rule that matches the event, and others like it, with the event as its test. */
export function ruleFromEvent(row: EventRow): string {
  const { selection, event } = partsOf(row)
  const other = row.event_type === 'other_event' ? 'another_event' : 'other_event'
  // The rule is about every agent.
  const title =
    plainText(titleOf({ ...row, instance_id: null }))
      .slice(0, 200)
      .trim() || row.event_type
  return `title: ${quoteYaml(title)}
description: ${quoteYaml(`Like event ${row.seq} of ${row.created_at}.`)}
severity: ${row.severity === 'info' ? 'warning' : row.severity}
detection:
  # Delete the fields that need not match; * stands for any characters.
  event:
${selection.map(([field, value]) => `    ${field}: ${yamlOf(value)}`).join('\n')}
  condition: event
tests:
  match:
    - - ${yamlOf(event)}
  no_match:
    - - { event_type: ${other} }
`
}
