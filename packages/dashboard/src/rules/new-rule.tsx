import { useMutation, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { HostileText } from '../parts/hostile-text.tsx'
import '../parts/list.css'
import { call, sentenceOf } from '../service/client.ts'
import { faultsOf, rulesKey } from '../service/rules.ts'
import { useMayOperate } from '../service/session.ts'
import { useTitle } from '../shell/title.ts'
import { Backtest } from './backtest.tsx'
import { Editor, useCheck } from './editor.tsx'
import { EnforceDialog } from './mode-buttons.tsx'
import { modeOfText, templateText } from './rule-texts.ts'
import './rules.css'

/** Screen for writing a new rule. */
export function NewRule() {
  const client = useQueryClient()
  const navigate = useNavigate()
  const mayOperate = useMayOperate()
  const [text, setText] = useState(templateText)
  const [isAsking, setAsking] = useState(false)
  const check = useCheck(text, mayOperate)
  useTitle('New rule')
  const store = useMutation({
    mutationFn: () => call('createRule', { body: { rule: text } }),
    onSuccess: ({ id }) => {
      void client.invalidateQueries({ queryKey: rulesKey })
      void navigate({ to: '/rules/$id', params: { id } })
    },
    onError: () => setAsking(false),
  })
  const mode = modeOfText(text) ?? 'observe'
  const isFit = check.check !== undefined && check.check.faults.length === 0
  return (
    <div className="rows">
      <div>
        <div className="head">
          <h1>New rule</h1>
          <span className="end">
            <button
              type="button"
              className="go"
              disabled={!mayOperate || !isFit || store.isPending}
              title={mayOperate ? undefined : 'Your key has scope viewer: only operators and admins store rules'}
              onClick={() => (mode === 'enforce' ? setAsking(true) : store.mutate())}
            >
              Store in mode {mode}
              {!mayOperate && <span className="only-read"> (needs a key of scope operator)</span>}
            </button>
          </span>
        </div>
        <p className="quiet lead">
          In mode observe it only records what it would do. <Link to="/rules">Open all rules</Link>
        </p>
      </div>
      {store.error && (
        <p role="alert" className="notice fault">
          <HostileText text={sentenceOf(store.error)} max={600} />
        </p>
      )}
      {mayOperate ? (
        <div className="rule-columns">
          <Editor
            text={text}
            check={check}
            refused={faultsOf(store.error)}
            onChange={(next) => {
              store.reset()
              setText(next)
            }}
          />
          <Backtest text={text} />
        </div>
      ) : (
        <p className="notice">Your key has scope viewer: only operators and admins store rules.</p>
      )}
      {isAsking && (
        <EnforceDialog
          isText
          isBusy={store.isPending}
          fault={null}
          onConfirm={() => store.mutate()}
          onClose={() => setAsking(false)}
        />
      )}
    </div>
  )
}
