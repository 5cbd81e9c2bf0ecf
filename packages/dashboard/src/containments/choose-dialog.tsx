import { useQuery } from '@tanstack/react-query'
import type { Containment } from '@wardline/contract'
import { type ContainmentAction, type ContainmentSelector, limits } from '@wardline/contract'
import { useId, useState } from 'react'
import { type Agent, fleetQuery } from '../service/fleet.ts'
import { selectorText } from './containment-texts.ts'
import { FleetDialog } from './fleet-dialog.tsx'
import { selectedOf, tagCounts, withJoined } from './members.ts'
import { TagChips } from './tag-chips.tsx'

interface Choice {
  key: string
  name: string
}

interface ChoicesProps {
  choices: readonly Choice[]
  chosen: string
  onChoose(key: string): void
}

function Choices({ choices, chosen, onChoose }: ChoicesProps) {
  const name = useId()
  return (
    <fieldset className="plain-set">
      <legend className="quiet">Which agents</legend>
      {choices.map(({ key, name: text }, index) => (
        <label key={key} className="choice">
          <input
            type="radio"
            name={name}
            data-first={index === 0 || undefined}
            checked={key === chosen}
            onChange={() => onChoose(key)}
          />
          {text}
        </label>
      ))}
    </fieldset>
  )
}

const ofTags = (tags: readonly string[]): ContainmentSelector | undefined =>
  tags.length > 0 ? { tags: [...tags] } : undefined

/** Suspends or resumes agents by tag, or the whole fleet. */
export function ChooseDialog({ action, onClose }: { action: ContainmentAction; onClose(): void }) {
  const { data: fleet = [] } = useQuery(fleetQuery)
  const [by, setBy] = useState('tags')
  const [tags, setTags] = useState<string[]>([])
  const isSuspended = action === 'resume'
  const candidates = fleet.filter(({ status }) => (status === 'suspended') === isSuspended)
  return (
    <FleetDialog action={action} selector={by === 'all' ? { all: true } : ofTags(tags)} onClose={onClose}>
      <Choices
        choices={[
          { key: 'tags', name: 'By tag' },
          { key: 'all', name: 'Every agent' },
        ]}
        chosen={by}
        onChoose={setBy}
      />
      {by === 'tags' && <TagChips counts={tagCounts(candidates, action)} chosen={tags} onChoose={setTags} />}
    </FleetDialog>
  )
}

/** Number of agents in the first stage of a staged resume: a tenth, at least one. */
const firstStage = (agents: readonly Agent[]) => Math.max(1, Math.round(agents.length / 10))

/** Resumes the agents of a containment: some of them first, or all. */
export function ResumeStagesDialog({ containment, onClose }: { containment: Containment; onClose(): void }) {
  const { reason, requested, joined } = containment
  const { data: fleet = [] } = useQuery(fleetQuery)
  const selector = withJoined(containment, fleet)
  const [by, setBy] = useState('first')
  const [tags, setTags] = useState<string[]>([])
  const [count, setCount] = useState<number>()
  const members = selectedOf(fleet, selector, 'resume').filter(({ status }) => status === 'suspended')
  const first = Math.min(count ?? firstStage(members), members.length, limits.containmentInstances)
  const ids = members.slice(0, first).map(({ id }) => id)
  const within = [...(selector.tags ?? []), ...tags]
  const chosen: Record<string, ContainmentSelector | undefined> = {
    first: ids.length > 0 ? { instances: ids } : undefined,
    tags: tags.length === 0 ? undefined : selector.instances ? ofMembers(members, tags) : { tags: within },
    all: selector,
  }
  const named = containment.selector.instances?.length
  const isCut = named !== undefined && named + joined.length < requested
  return (
    <FleetDialog action="resume" selector={chosen[by]} because={`${reason.slice(0, 200)}: over. `} onClose={onClose}>
      <Choices
        choices={[
          { key: 'first', name: 'Some of them first' },
          { key: 'tags', name: 'By tag first' },
          ...(isCut ? [] : [{ key: 'all', name: `All that are suspended of ${selectorText(selector, requested)}` }]),
        ]}
        chosen={by}
        onChoose={setBy}
      />
      {isCut && (
        <p className="quiet">
          The service names only {named} of these {requested} agents: select the others in the fleet.
        </p>
      )}
      {by === 'first' && (
        <label className="field">
          <span>How many of the {members.length} that are suspended</span>
          <input
            type="number"
            min={1}
            max={members.length}
            value={first}
            onChange={({ target }) => setCount(Math.max(1, Math.floor(Number(target.value)) || 1))}
          />
        </label>
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

/** Selects the members with these tags. */
function ofMembers(members: readonly Agent[], tags: readonly string[]): ContainmentSelector | undefined {
  const ids = selectedOf(members, { tags: [...tags] }, 'resume').map(({ id }) => id)
  return ids.length > 0 ? { instances: ids } : undefined
}
