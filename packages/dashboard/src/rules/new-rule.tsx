import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { call } from '../data/client.ts'
import { useMayOperate } from '../data/session.ts'
import { Notice, Screen } from '../ui/panel.tsx'
import { Editor } from './editor.tsx'
import { Backtest } from './firings.tsx'
import { modeOfText, templateText } from './rule-texts.ts'
import css from './rules.module.css'

/** Screen for writing a new rule. */
export function NewRule() {
  const navigate = useNavigate()
  const mayOperate = useMayOperate()
  const [text, setText] = useState(templateText)
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
