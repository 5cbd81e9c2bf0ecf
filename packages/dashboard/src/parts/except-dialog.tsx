import { useQuery } from '@tanstack/react-query'
import { type ExceptionBody, ruleLimits } from '@wardline/contract'
import { useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { agentQuery } from '../data/fleet.ts'
import { queryKeys } from '../data/query-keys.ts'
import { checkQuery, type RuleMatches, ruleQuery } from '../data/rules.ts'
import { CopyButton } from '../ui/copy-button.tsx'
import { FormDialog } from '../ui/dialog.tsx'
import { Check, fieldText, SelectField, TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Notice } from '../ui/panel.tsx'
import { dayMs } from '../ui/span.ts'
import { plainText } from '../ui/unseen-characters.ts'
import { lineDiff } from './line-diff.ts'
import css from './rule-matches.module.css'

/** What can be excepted: the agent, one of its tags, or a value that a selection matched. */
interface Choice {
  name: string
  who?: { instances: string[] } | { tags: string[] }
  filter?: { selection: string; field: string; value: string }
}

function choicesOf({ events }: RuleMatches, agent: string | null, tags: readonly string[]): Choice[] {
  const values = events.flatMap(({ matches }) =>
    matches.flatMap(({ selection, field, value }): Choice[] => {
      if (field === null || value === null || value === '' || value.length > ruleLimits.valueLength / 2) return []
      if (['event_type', 'instance_id', 'tags', 'by_service', 'severity'].includes(field)) return []
      const name = `${field.replace('metadata.', '')}: ${plainText(value.slice(0, 100))}`
      return [{ name, filter: { selection, field, value } }]
    }),
  )
  const known = new Map(values.map((choice) => [choice.name, choice]))
  return [
    ...(agent === null ? [] : [{ name: `agent ${agent}`, who: { instances: [agent] } }]),
    ...tags.map((tag) => ({ name: `tag ${tag}`, who: { tags: [tag] } })),
    ...known.values(),
  ]
}

const signs = { same: ' ', removed: '-', added: '+', gap: '…' }
const colours = { same: 'quiet', removed: 'critical', added: 'ok', gap: 'quiet' }

function TextDiff({ before, after }: { before: string; after: string }) {
  return (
    <section className={css.diff} tabIndex={0} aria-label="Change of the rule">
      {lineDiff(before, after).map(({ kind, text }, index) => (
        <div key={index} className={colours[kind]}>
          {signs[kind]} <HostileText text={text} max={2_000} />
        </div>
      ))}
    </section>
  )
}

interface Draft {
  version: number
  before: string
  text: string
}

/** Adds an exception to a rule: first shows the change of its text, then saves it as a version. */
export function ExceptDialog({ fired, onClose }: { fired: RuleMatches; onClose(): void }) {
  const agent = fired.events.at(-1)?.event.instance_id ?? null
  const { data: detail } = useQuery({ ...agentQuery(agent ?? ''), enabled: agent !== null })
  const { data: rule } = useQuery(ruleQuery(fired.id))
  const [draft, setDraft] = useState<Draft>()
  const [at, setAt] = useState(0)
  const { data: check } = useQuery({ ...checkQuery(draft?.text ?? ''), enabled: draft !== undefined })
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.rules] })
  const choices = choicesOf(fired, agent, detail?.operator_tags ?? [])
  const choice = choices[at]
  const file = rule?.file ?? null

  function bodyOf(form: FormData): ExceptionBody {
    const { who, filter } = choice!
    if (who) return { exception: { who, reason: fieldText(form, 'reason'), until: fieldText(form, 'until') } }
    const { selection, field, value } = filter!
    const isOwn = agent !== null && form.get('own') !== null
    return { filter: { selection, fields: { ...(isOwn ? { instance_id: agent } : {}), [field]: value } } }
  }
  async function write(form: FormData) {
    setDraft(await call('draftException', { params: { id: fired.id }, body: bodyOf(form) }))
    return undefined
  }
  async function save({ version, text }: Draft) {
    const now = await call('getRule', { params: { id: fired.id } })
    if (now.version !== version) throw new Error('The rule was changed meanwhile: begin again.')
    const stored = await call('replaceRule', { params: { id: fired.id }, body: { rule: text } })
    onClose()
    return `Exception saved as version ${stored.version}.`
  }
  const failed = check?.faults[0]
  return (
    <FormDialog
      title={
        <>
          Exception of <HostileText text={fired.title} max={120} />
        </>
      }
      submit={draft ? `Save as version ${draft.version + 1}` : 'Show change'}
      isBusy={isBusy}
      isReady={choice !== undefined && (!draft || (file === null && check !== undefined && !failed))}
      fault={fault}
      extra={draft && file !== null && <CopyButton name="Copy the text" text={draft.text} />}
      onClose={onClose}
      onSubmit={(form) => void run(() => (draft ? save(draft) : write(form)))}
    >
      {draft ? (
        <>
          <TextDiff before={draft.before} after={draft.text} />
          {file !== null && (
            <Notice>This rule is loaded from the file {plainText(file)}: copy the changed text into it.</Notice>
          )}
          <p role="status" className={failed ? 'fault' : 'quiet'}>
            {!check && 'Running the tests of the rule…'}
            {failed && <HostileText text={`A test of the rule fails: ${failed.sentence}`} max={400} />}
            {check && !failed && 'The tests of the rule pass.'}
          </p>
        </>
      ) : (
        <>
          <SelectField
            label="The rule no longer fires for"
            isFirst
            value={String(at)}
            options={choices.map(({ name }, index) => [String(index), name] as const)}
            onChange={({ target }) => setAt(Number(target.value))}
          />
          {choice?.who && (
            <>
              <TextField label="Reason" name="reason" required maxLength={200} />
              <TextField
                label="Until"
                name="until"
                type="date"
                required
                defaultValue={new Date(Date.now() + 30 * dayMs).toISOString().slice(0, 10)}
              />
            </>
          )}
          {choice?.filter && (
            <>
              {agent !== null && <Check label={`Only for ${agent}`} name="own" defaultChecked />}
              <p className="quiet">
                A filter has no end. It also passes over events that name other values beside this one.
              </p>
            </>
          )}
        </>
      )}
    </FormDialog>
  )
}
