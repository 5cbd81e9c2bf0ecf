import { limits } from '@wardline/contract'
import { counted } from '@wardline/text/counted'
import { useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { eachOf } from '../data/each-of.ts'
import type { Agent } from '../data/fleet.ts'
import { queryKeys } from '../data/query-keys.ts'
import { Chip } from '../ui/button.tsx'
import { FormDialog } from '../ui/dialog.tsx'
import { FieldGroup, TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { faultText } from '../ui/panel.tsx'

/** Above this many tags, typing a name is faster than searching a list. */
const maxListed = 30

/** Adds and removes operators' tags. Tags set by the agent itself are kept, and the result says so. */
export function TagDialog({ agents, onClose }: { agents: readonly Agent[]; onClose(): void }) {
  const change = useChange({ changes: [queryKeys.fleet, ...agents.map(({ id }) => queryKeys.agent(id))] })
  const [text, setText] = useState('')
  const [removed, setRemoved] = useState<ReadonlySet<string>>(new Set())
  const added = [...new Set(text.split(/[\s,]+/).filter(Boolean))]
  const present = [...new Set(agents.flatMap(({ tags }) => tags))].sort()

  async function apply() {
    const failed: { id: string; sentence: string }[] = []
    let kept = 0
    await eachOf(agents, async ({ id }) => {
      const params = { instanceId: id }
      try {
        const { operator_tags, agent_tags } = await call('getInstance', { params })
        const tags = [...new Set([...operator_tags, ...added])].filter((tag) => !removed.has(tag))
        if (tags.join() !== operator_tags.join()) await call('setInstanceTags', { params, body: { tags } })
        if (agent_tags.some((tag) => removed.has(tag))) kept += 1
      } catch (fault) {
        failed.push({ id, sentence: faultText(fault) })
      }
    })
    const all = counted(agents.length, 'agent')
    if (failed.length > 0) {
      const reasons = [...Map.groupBy(failed, ({ sentence }) => sentence)].map(
        ([sentence, of]) => `${of.map(({ id }) => id).join(', ')}: ${sentence}`,
      )
      throw new Error([`Tags set for ${agents.length - failed.length} of ${all}.`, ...reasons].join(' '))
    }
    const note = ` ${counted(kept, 'agent')} still ${kept === 1 ? 'reports' : 'report'} a removed tag in heartbeats.`
    return `Tags set for ${all}.${kept > 0 ? note : ''}`
  }
  return (
    <FormDialog
      title={`Tags of ${agents.length === 1 ? agents[0]!.id : counted(agents.length, 'agent')}`}
      submit="Set tags"
      isBusy={change.isBusy}
      isReady={added.length > 0 || removed.size > 0}
      fault={change.fault}
      onClose={onClose}
      onSubmit={async () => {
        if (await change.run(apply)) onClose()
      }}
    >
      {present.length > 0 && (
        <FieldGroup label="Remove tags">
          <span className="chips">
            {present.slice(0, maxListed).map((tag) => (
              <Chip
                key={tag}
                isOn={removed.has(tag)}
                onClick={() => {
                  const next = new Set(removed)
                  if (!next.delete(tag)) next.add(tag)
                  setRemoved(next)
                }}
              >
                <HostileText text={tag} line max={40} /> ×
              </Chip>
            ))}
          </span>
        </FieldGroup>
      )}
      <TextField
        label="Add tags, separated by commas"
        hint={`Lowercase letters, digits, _ . : and -. Maximum: ${limits.tags} tags, ${limits.tag} characters each.`}
        isFirst
        placeholder="env:production, finance"
        maxLength={limits.tags * (limits.tag + 2)}
        value={text}
        onChange={({ target }) => setText(target.value.toLowerCase())}
      />
    </FormDialog>
  )
}
