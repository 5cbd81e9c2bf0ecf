import { useState } from 'react'
import type { Approval } from '../data/approvals.ts'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useHasScope } from '../data/session.ts'
import { ChangeDialog, entered } from '../parts/change-dialog.tsx'
import { OperatorButton } from '../parts/operator-button.tsx'
import { SelectField, TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault } from '../ui/panel.tsx'
import { useKeys } from '../ui/shortcuts.ts'

const changes = [queryKeys.approvals]

/** A deliberate choice for a while: the same tool of the same agent, a bounded number of calls. */
function AllowDialog({ approval, onClose }: { approval: Approval; onClose(): void }) {
  return (
    <ChangeDialog
      changes={changes}
      title={
        <>
          Allow <HostileText text={approval.tool} max={100} /> of {approval.instance_id} for a while?
        </>
      }
      submit="Allow"
      kind="act"
      send={async (form) => {
        const body = {
          decision: 'approve' as const,
          for_minutes: Number(entered(form, 'minutes')),
          max_calls: Number(entered(form, 'calls')),
          ...(entered(form, 'reason') === '' ? {} : { reason: entered(form, 'reason') }),
        }
        await call('decideApproval', { params: { id: approval.id }, body })
        return 'Allowed. Every call under it is recorded.'
      }}
      onClose={onClose}
    >
      <p>
        This call is approved, and further calls of the same tool by this agent go on without a question, whatever their
        arguments.
      </p>
      <SelectField
        label="Time"
        name="minutes"
        defaultValue="60"
        options={[
          ['15', '15 minutes'],
          ['60', '1 hour'],
          ['240', '4 hours'],
          ['480', '8 hours'],
        ]}
      />
      <TextField label="Calls at most" name="calls" type="number" min={1} max={1_000} defaultValue="8" required />
      <TextField label="Reason" hint="Optional; stands in the audit log." name="reason" maxLength={500} />
    </ChangeDialog>
  )
}

interface DecideProps {
  approval: Approval
  /** Whether the keys act on it. */
  isKeyed?: boolean
}

/** The decisions on a request: one press each. */
export function Decide({ approval, isKeyed = false }: DecideProps) {
  const { id, tool, instance_id, approvals, own, may_decide } = approval
  const mayOperate = useHasScope('approver', 'operator', 'admin')
  const mayDecide = mayOperate && may_decide
  const { isBusy, fault, run } = useChange({ changes })
  const [isAllowing, setAllowing] = useState(false)
  const decide = (decision: 'approve' | 'deny') =>
    void run(async () => {
      const { state } = await call('decideApproval', { params: { id }, body: { decision } })
      if (state === 'pending') return 'Approved. A second operator must approve it too.'
      return decision === 'approve' ? 'Approved.' : 'Denied.'
    })
  useKeys(isKeyed && mayDecide ? { y: () => !own && decide('approve'), x: () => decide('deny') } : {})
  const about = `: ${tool} of ${instance_id}`
  const key = (name: string) => (isKeyed ? { shortcut: name } : {})
  return (
    <>
      <div className="chips">
        <OperatorButton
          kind="go"
          disabled={isBusy || own || !may_decide}
          about={about}
          onClick={() => decide('approve')}
          {...key('y')}
        >
          Approve
        </OperatorButton>
        <OperatorButton
          kind="danger"
          disabled={isBusy || !may_decide}
          about={about}
          onClick={() => decide('deny')}
          {...key('x')}
        >
          Deny
        </OperatorButton>
        {approvals === 1 && (
          <OperatorButton disabled={isBusy || !may_decide} about={about} onClick={() => setAllowing(true)}>
            Allow for a while…
          </OperatorButton>
        )}
      </div>
      {mayOperate && !may_decide && <p className="quiet">Your key does not decide about this agent.</p>}
      <Fault of={fault} />
      {isAllowing && <AllowDialog approval={approval} onClose={() => setAllowing(false)} />}
    </>
  )
}
