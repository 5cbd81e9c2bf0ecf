import { useState } from 'react'
import type { AlertDetail } from '../data/alerts.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useHasScope, useMayOperate } from '../data/session.ts'
import { OperatorButton } from '../parts/operator-button.tsx'
import { Form, fieldText, TextArea } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Panel } from '../ui/panel.tsx'
import { Time } from '../ui/time.tsx'
import css from './alerts.module.css'

/** What people said about an alert, and the form for more. */
export function Comments({ alert: { id, comments } }: { alert: AlertDetail }) {
  const mayOperate = useMayOperate()
  const isAdmin = useHasScope('admin')
  const [written, setWritten] = useState(0)
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.alerts] })
  const add = async (text: string) => {
    const isAdded = await run(() => call('addComment', { params: { id }, body: { text } }), 'Comment added.')
    // A new key empties the field; after a failure the text stays.
    if (isAdded) setWritten(written + 1)
  }
  const remove = (comment: string) =>
    void run(() => call('deleteComment', { params: { id: comment } }), 'Comment deleted.')
  return (
    <Panel title="Comments" level={3} note={comments.length > 0 && comments.length}>
      <ul>
        {comments.map((comment) => (
          <li key={comment.id} className={css.entry}>
            <p className="quiet">
              <HostileText text={comment.author_name} max={60} /> <Time at={comment.at} />
            </p>
            {comment.text === null ? (
              <p className="quiet">
                Deleted by <HostileText text={comment.deleted_by_name ?? ''} max={60} />
              </p>
            ) : (
              <>
                <div className={css.comment}>
                  <HostileText text={comment.text} lines />
                </div>
                {mayOperate && (comment.own || isAdmin) && (
                  <OperatorButton about="comment" disabled={isBusy} onClick={() => remove(comment.id)}>
                    Delete
                  </OperatorButton>
                )}
              </>
            )}
          </li>
        ))}
      </ul>
      <Form
        className={css.form}
        onSubmit={(form) => {
          const text = fieldText(form, 'comment')
          if (text) void add(text)
        }}
      >
        <TextArea key={written} name="comment" label="Comment" rows={2} maxLength={2_000} disabled={!mayOperate} />
        <Fault of={fault} />
        <OperatorButton isSubmit disabled={isBusy}>
          Add comment
        </OperatorButton>
      </Form>
    </Panel>
  )
}
