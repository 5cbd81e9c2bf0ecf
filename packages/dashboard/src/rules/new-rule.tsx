import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { call } from '../data/client.ts'
import { eventQuery } from '../data/event-tail.ts'
import { useMayOperate } from '../data/session.ts'
import { Fault, Notice, Screen } from '../ui/panel.tsx'
import { Editor } from './editor.tsx'
import { Backtest } from './firings.tsx'
import { ruleFromEvent } from './rule-from-event.ts'
import { modeOfText, templateText } from './rule-texts.ts'
import css from './rules.module.css'

const route = getRouteApi('/inside/rules/new')

/** Screen for writing a new rule, from an event where the address names one. */
export function NewRule() {
  const { event: seq } = route.useSearch()
  const { data, error } = useQuery({ ...eventQuery(seq ?? 0), enabled: seq !== undefined })
  if (seq === undefined) return <OpenNewRule start={templateText} />
  if (data) return <OpenNewRule key={seq} start={ruleFromEvent(data)} seq={seq} />
  return (
    <Screen title="New rule" lead={<Link to="/rules">All rules</Link>}>
      <Fault of={error} />
      {data === null && <Notice>No event with seq {seq}. Retention may have deleted it.</Notice>}
    </Screen>
  )
}

function OpenNewRule({ start, seq }: { start: string; seq?: number }) {
  const navigate = useNavigate()
  const mayOperate = useMayOperate()
  const [text, setText] = useState(start)
  async function save() {
    const { id } = await call('createRule', { body: { rule: text } })
    await navigate({ to: '/rules/$id', params: { id } })
    return 'Rule saved.'
  }
  return (
    <Screen
      title="New rule"
      lead={
        <>
          {seq !== undefined && (
            <>
              From the fields of{' '}
              <Link to="/events" search={{ open: seq }}>
                event {seq.toLocaleString('en')}
              </Link>
              .{' '}
            </>
          )}
          In mode observe, a rule only records what it would do. <Link to="/rules">All rules</Link>
        </>
      }
    >
      {mayOperate ? (
        <div className={css.columns}>
          <Editor
            text={text}
            saveName={`Save in mode ${modeOfText(text) ?? 'observe'}`}
            save={save}
            onChange={setText}
          />
          <div className="stack">
            <Backtest text={text} />
          </div>
        </div>
      ) : (
        <Notice>Saving rules requires a key with scope operator or admin.</Notice>
      )}
    </Screen>
  )
}
