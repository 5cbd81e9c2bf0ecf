import { useQuery } from '@tanstack/react-query'
import {
  type AgentSelector,
  type Containment,
  type ContainmentAction,
  limits,
  type ResumeRequest,
} from '@wardline/contract'
import { useId, useState } from 'react'
import { requestedQuery } from '../data/containments.ts'
import { type Agent, agentQuery, fleetTagsQuery, suspendedQuery } from '../data/fleet.ts'
import { AgentPages } from '../parts/agent-link.tsx'
import { ControlDialog } from '../suspend/suspend-dialog.tsx'

import { Check, FieldGroup, TextField } from '../ui/field.tsx'
import { Fault } from '../ui/panel.tsx'
import { selectorText } from './containment-texts.ts'
import { FleetDialog } from './fleet-dialog.tsx'
import { selectedOf, tagCounts, withJoined } from './members.ts'
import { TagChips } from './tag-chips.tsx'

interface ChoicesProps {
  choices: readonly (readonly [key: string, name: string])[]
  chosen: string
  onChoose(key: string): void
}

function Choices({ choices, chosen, onChoose }: ChoicesProps) {
  const name = useId()
  return (
    <FieldGroup label="Agents">
      {choices.map(([key, label], index) => (
        <Check
          key={key}
          type="radio"
          label={label}
          name={name}
          data-first={index === 0 || undefined}
          checked={key === chosen}
          onChange={() => onChoose(key)}
        />
      ))}
    </FieldGroup>
  )
}

/** Suspends or resumes agents by tag, or the whole fleet. */
export function ChooseDialog({ action, onClose }: { action: ContainmentAction; onClose(): void }) {
  const { data: known } = useQuery(fleetTagsQuery)
  const [by, setBy] = useState('tags')
  const [tags, setTags] = useState<string[]>([])
  const selector = by === 'all' ? { all: true } : tags.length > 0 ? { tags } : undefined
  // A resume does not follow what agents say of themselves.
  const counts = (known?.tags ?? [])
    .map(({ tag, running, resumable }) => [tag, action === 'resume' ? resumable : running] as const)
    .filter(([, count]) => count > 0)
    .sort(([, few], [, many]) => many - few)
  const choices = [['tags', 'By tag'] as const, ['all', 'Every agent'] as const]
  return (
    <FleetDialog action={action} selector={selector} onClose={onClose}>
      <Choices choices={choices} chosen={by} onChoose={setBy} />
      {by === 'tags' && <TagChips counts={counts} chosen={tags} onChoose={setTags} />}
    </FleetDialog>
  )
}

/** Number of agents in the first stage of a staged resume: a tenth, at least one. */
const firstStage = (agents: readonly Agent[]) => Math.max(1, Math.round(agents.length / 10))

const ofIds = (agents: readonly Agent[]): AgentSelector | undefined =>
  agents.length > 0 ? { instances: agents.map(({ id }) => id) } : undefined

/** Resumes the agents of a containment: some of them first, or all. */
export function ResumeStagesDialog({ containment, onClose }: { containment: Containment; onClose(): void }) {
  const { reason, requested, joined } = containment
  const { data: fleet = [] } = useQuery(suspendedQuery)
  const selector = withJoined(containment, fleet)
  const [by, setBy] = useState('first')
  const [tags, setTags] = useState<string[]>([])
  const [count, setCount] = useState<number>()
  const members = selectedOf(fleet, selector, 'resume').filter(({ status }) => status === 'suspended')
  const first = Math.min(count ?? firstStage(members), members.length, limits.selectedInstances)
  const tagged = selector.instances
    ? ofIds(selectedOf(members, { tags }, 'resume'))
    : { tags: [...(selector.tags ?? []), ...tags] }
  const chosen: Record<string, AgentSelector | undefined> = {
    first: ofIds(members.slice(0, first)),
    tags: tags.length === 0 ? undefined : tagged,
    all: selector,
  }
  const named = containment.selector.instances?.length
  const isCut = named !== undefined && named + joined.length < requested
  const all = isCut ? [] : [['all', `All that are still suspended (${selectorText(selector, requested)})`] as const]
  return (
    <FleetDialog
      action="resume"
      selector={chosen[by]}
      because={`${reason.slice(0, 200)}: resolved. `}
      onClose={onClose}
    >
      <Choices
        choices={[['first', 'Some agents first'], ['tags', 'By tag first'], ...all]}
        chosen={by}
        onChoose={setBy}
      />
      {isCut && (
        <p className="quiet">
          Only {named} of these {requested} agents are available here. Select the others in the fleet.
        </p>
      )}
      {by === 'first' && (
        <TextField
          label={`Number of agents (${members.length} suspended)`}
          type="number"
          min={1}
          max={members.length}
          value={first}
          onChange={({ target }) => setCount(Math.max(1, Math.floor(Number(target.value)) || 1))}
        />
      )}
      {by === 'tags' && (
        <TagChips
          counts={tagCounts(members, 'resume').filter(([tag]) => !selector.tags?.includes(tag))}
          chosen={tags}
          onChoose={setTags}
        />
      )}
    </FleetDialog>
  )
}

function ConfirmOne({ id, onClose }: { id: string; onClose(): void }) {
  const { data } = useQuery(agentQuery(id))
  return data && <ControlDialog action="resume" agent={data} onClose={onClose} />
}

/**
 * Confirms a request of more agents than the list contains: shows the second operator all of them, and sends all their
 * ids.
 */
function ConfirmMany({ id, onClose }: { id: string; onClose(): void }) {
  const { data: ids, error } = useQuery(requestedQuery(id))
  return (
    <FleetDialog action="resume" selector={ids && { instances: ids }} onClose={onClose}>
      <Fault of={error} />
      {ids ? (
        <AgentPages ids={ids} label="Agents of this request" />
      ) : (
        !error && <p className="quiet">Loading the agents of this request…</p>
      )}
    </FleetDialog>
  )
}

/** The second operator's dialog for a resume. */
export function ConfirmDialog({ request, onClose }: { request: ResumeRequest; onClose(): void }) {
  const { id, instance_id, selector, tags_scope } = request
  if (instance_id !== null) return <ConfirmOne id={instance_id} onClose={onClose} />
  // The request may list only some of its agents, and `all` of a team is not all of another operator.
  const isCut = (selector?.instances?.length ?? 0) >= limits.listedMembers || tags_scope !== null
  if (id !== null && isCut) return <ConfirmMany id={id} onClose={onClose} />
  return <FleetDialog action="resume" selector={selector ?? undefined} onClose={onClose} />
}
