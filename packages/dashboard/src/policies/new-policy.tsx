import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { call } from '../data/client.ts'
import { useMayOperate } from '../data/session.ts'
import { Notice, Screen } from '../ui/panel.tsx'
import { Backtest } from './backtest.tsx'
import { Editor } from './editor.tsx'
import { modeOfText, templateText } from './policy-texts.ts'

/** Screen for writing a new policy. */
export function NewPolicy() {
  const navigate = useNavigate()
  const mayOperate = useMayOperate()
  const [text, setText] = useState(templateText)
  async function save() {
    const { id } = await call('createPolicy', { body: { policy: text } })
    await navigate({ to: '/policies/$id', params: { id } })
    return 'Policy saved.'
  }
  return (
    <Screen
      title="New policy"
      lead={
        <>
          In mode observe, a policy only records what it would have said. <Link to="/policies">All policies</Link>
        </>
      }
    >
      {mayOperate ? (
        <div className="halves">
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
        <Notice>Saving policies requires a key with scope operator or admin.</Notice>
      )}
    </Screen>
  )
}
