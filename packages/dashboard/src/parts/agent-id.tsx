import { titleOf } from '@wardline/contract'
import css from './agent-id.module.css'

/** Ids of a fleet often begin alike and end in what tells them apart. */
const tailLength = 7
/** Shorter ids fit everywhere. */
const maxWhole = 16

/**
 * The id of an agent. Where it is longer than its place it is cut in the middle; its tooltip, a screen reader and a copy
 * have the whole.
 */
export function AgentId({ id }: { id: string }) {
  if (id.length <= maxWhole) return <bdi>{id}</bdi>
  return (
    <bdi className={css.id} title={id}>
      <span className={css.whole}>{id}</span>
      <span className={css.shown} aria-hidden="true">
        <span className={css.head}>{id.slice(0, -tailLength)}</span>
        <span className={css.tail}>{id.slice(-tailLength)}</span>
      </span>
    </bdi>
  )
}

/** Fixed words about one agent, whose id may be cut in the middle. */
export function AgentText({ text, id }: { text: string; id: string | null | undefined }) {
  const at = id ? text.indexOf(id) : -1
  if (!id || at < 0) return text
  return (
    <span className={css.title}>
      {text.slice(0, at)}
      <AgentId id={id} />
      {text.slice(at + id.length)}
    </span>
  )
}

/** The title of an event or alert. */
export function EventTitle({ of: row }: { of: Parameters<typeof titleOf>[0] }) {
  return <AgentText text={titleOf(row)} id={row.instance_id} />
}
