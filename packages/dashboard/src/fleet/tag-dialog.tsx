import { useQueryClient } from '@tanstack/react-query'
import { limits } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import { call, sentenceOf } from '../service/client.ts'
import { eachOf } from '../service/each-of.ts'
import { type Agent, fleetQuery } from '../service/fleet.ts'

/** Above this many tags, typing a name is faster than searching a list. */
const maxListed = 30

/** Adds and removes operators' tags. Tags set by the agent itself are kept, and the dialog says so. */
export function TagDialog({ agents, onClose }: { agents: readonly Agent[]; onClose(): void }) {
  const client = useQueryClient()
  const [text, setText] = useState('')
  const [removed, setRemoved] = useState<ReadonlySet<string>>(new Set())
  const [outcome, setOutcome] = useState<{ done: number; kept: string[]; faults: [id: string, sentence: string][] }>()
  const [isBusy, setBusy] = useState(false)
  const added = [...new Set(text.split(/[\s,]+/).filter(Boolean))]
  const present = [...new Set(agents.flatMap(({ tags }) => tags))].sort()
  const title = `Tags of ${agents.length === 1 ? agents[0]!.id : counted(agents.length, 'agent')}`

  async function apply() {
    setBusy(true)
    const result = { done: 0, kept: [] as string[], faults: [] as [string, string][] }
    await eachOf(agents, async ({ id }) => {
      const params = { instanceId: id }
      try {
        const { operator_tags, agent_tags } = await call('getInstance', { params })
        const tags = [...new Set([...operator_tags, ...added])].filter((tag) => !removed.has(tag))
        if (tags.join() !== operator_tags.join()) await call('setInstanceTags', { params, body: { tags } })
        result.done += 1
        if (agent_tags.some((tag) => removed.has(tag))) result.kept.push(id)
      } catch (fault) {
        result.faults.push([id, sentenceOf(fault)])
      }
    })
    await client.invalidateQueries({ queryKey: fleetQuery.queryKey })
    for (const { id } of agents) void client.invalidateQueries({ queryKey: ['agent', id] })
    setOutcome(result)
    setBusy(false)
  }
  return (
    <Dialog label={title} onClose={onClose}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          void apply()
        }}
      >
        <h2>{title}</h2>
        {outcome ? (
          <>
            <p role="alert" className="outcome">
              {outcome.done === agents.length
                ? `Set for ${counted(agents.length, 'agent')}.`
                : `Set for ${outcome.done} of ${counted(agents.length, 'agent')}.`}
            </p>
            {outcome.kept.length > 0 && (
              <p className="quiet">
                {counted(outcome.kept.length, 'agent')} name{outcome.kept.length === 1 ? 's' : ''} such a tag in{' '}
                {outcome.kept.length === 1 ? 'its' : 'their'} own heartbeats: that one stays.
              </p>
            )}
            <ul>
              {outcome.faults.map(([id, sentence]) => (
                <li key={id} className="fault">
                  <b>{id}</b>: <HostileText text={sentence} />
                </li>
              ))}
            </ul>
          </>
        ) : (
          <>
            {present.length > 0 && (
              <fieldset className="chips plain-set">
                <legend className="quiet">Remove</legend>
                {present.slice(0, maxListed).map((tag) => (
                  <button
                    key={tag}
                    type="button"
                    className="chip"
                    aria-pressed={removed.has(tag)}
                    onClick={() => {
                      const next = new Set(removed)
                      if (!next.delete(tag)) next.add(tag)
                      setRemoved(next)
                    }}
                  >
                    <HostileText text={tag} line max={40} /> ×
                  </button>
                ))}
              </fieldset>
            )}
            <label className="field">
              <span>Add, separated by commas</span>
              <input
                data-first
                placeholder="env:production, finance"
                maxLength={limits.tags * (limits.tag + 2)}
                value={text}
                onChange={(event) => setText(event.target.value.toLowerCase())}
              />
            </label>
            <p className="quiet">
              Lower-case letters, digits, _ . : and -; {limits.tags} tags of {limits.tag} characters at most.
            </p>
          </>
        )}
        <div className="foot">
          <button type="button" onClick={onClose}>
            {outcome ? 'Close' : 'Cancel'} <kbd>Esc</kbd>
          </button>
          {!outcome && (
            <button type="submit" className="go" disabled={isBusy || (added.length === 0 && removed.size === 0)}>
              Set tags
            </button>
          )}
        </div>
      </form>
    </Dialog>
  )
}
