import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { type PolicyMode, policyModes } from '@wardline/contract'
import { useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { decisionsText, type Policy, policyQuery, policyVersionQuery, useDecisions } from '../data/policies.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useMayOperate } from '../data/session.ts'
import { ChangeDialog } from '../parts/change-dialog.tsx'
import { type Draft, VersionedText, Versions } from '../parts/versioned-text.tsx'
import { Button, Chip } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { Fault, Notice, Screen } from '../ui/panel.tsx'
import { DataTable } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { plainText } from '../ui/unseen-characters.ts'
import { Backtest } from './backtest.tsx'
import { Editor } from './editor.tsx'
import { audienceText, flowSentences, modeNames, modeSentences } from './policy-texts.ts'

const EnforceDialog = lazyDialog(async () => (await import('./enforce-dialog.tsx')).EnforceDialog)

const route = getRouteApi('/inside/policies/$id')

interface ModeChipsProps {
  policy: Policy
  /** Why the mode cannot be changed. */
  locked: string | undefined
}

function ModeChips({ policy, locked }: ModeChipsProps) {
  const [isAsking, setAsking] = useState(false)
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.policies] })
  const change = (mode: PolicyMode) =>
    run(async () => {
      await call('setPolicyMode', { params: { id: policy.id }, body: { mode } })
      setAsking(false)
      return `Mode set to ${mode}.`
    })
  return (
    <>
      <div className="chips" role="group" aria-label="Mode">
        {policyModes.map((mode) => (
          <Chip
            key={mode}
            isOn={mode === policy.mode}
            disabled={locked !== undefined || isBusy}
            title={locked ?? modeSentences[mode]}
            onClick={() => {
              if (mode === policy.mode) return
              if (mode === 'enforce') setAsking(true)
              else void change(mode)
            }}
          >
            {modeNames[mode]}
            {mode === 'enforce' && policy.mode !== 'enforce' && '…'}
          </Chip>
        ))}
        <span className="quiet">{modeSentences[policy.mode]}</span>
      </div>
      {!isAsking && <Fault of={fault} />}
      {isAsking && (
        <EnforceDialog
          policy={policy}
          isBusy={isBusy}
          fault={fault}
          onConfirm={() => void change('enforce')}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  )
}

interface TextProps {
  policy: Policy
  draft: Draft | undefined
  isLocked: boolean
  version: number | undefined
  onDraft(draft: Draft | undefined): void
}

function TextOfPolicy({ policy, draft, version, onDraft, isLocked }: TextProps) {
  const { data: earlier, error } = useQuery({
    ...policyVersionQuery(policy.id, version ?? policy.version),
    enabled: version !== undefined,
  })
  const text = draft?.text ?? policy.text
  return (
    <VersionedText
      name="Policy"
      saved={policy}
      draft={draft}
      isLocked={isLocked}
      version={version}
      earlier={earlier}
      error={error}
      onDraft={onDraft}
      editor={(onChange, discard) => (
        <Editor
          text={text}
          policy={policy}
          saveName={`Save as version ${policy.version + 1}`}
          isChanged={draft !== undefined}
          save={async () => {
            await call('replacePolicy', { params: { id: policy.id }, body: { policy: text } })
            return 'Policy saved.'
          }}
          onSaved={() => onDraft(undefined)}
          onChange={onChange}
        >
          {discard}
        </Editor>
      )}
    />
  )
}

function Origin({ policy }: { policy: Policy }) {
  const { version, file, changed_at, changed_by, flow } = policy
  return (
    <>
      For <HostileText text={audienceText(policy.for)} max={300} /> · {flowSentences[flow]}
      <br />v{version} · {file === null ? 'API' : 'file'} · changed <Time at={changed_at} />
      {changed_by !== null && (
        <>
          {' by '}
          <HostileText text={changed_by} max={60} />
        </>
      )}
      {' · '}
      <Link to="/policies">All policies</Link>
    </>
  )
}

/** Returns why the current user may not change the policy. */
function lockOf(file: string | null, mayOperate: boolean): string | undefined {
  if (!mayOperate) return 'Changing policies requires a key with scope operator or admin'
  return file === null
    ? undefined
    : `This policy is loaded from the file ${plainText(file)}: edit the file to change it`
}

function OpenPolicy({ policy }: { policy: Policy }) {
  const { version } = route.useSearch()
  const navigate = route.useNavigate()
  const mayOperate = useMayOperate()
  const [draft, setDraft] = useState<Draft>()
  const [isDeleting, setDeleting] = useState(false)
  const locked = lockOf(policy.file, mayOperate)
  const { counts } = useDecisions((id, rule) => (id === policy.id && typeof rule === 'string' ? rule : undefined))
  const shown = version === policy.version ? undefined : version
  return (
    <Screen
      title={plainText(policy.title)}
      heading={<HostileText text={policy.title} max={256} />}
      lead={<Origin policy={policy} />}
      actions={
        <Button kind="danger" disabled={locked !== undefined} title={locked} onClick={() => setDeleting(true)}>
          Delete…
        </Button>
      }
    >
      {locked !== undefined && (
        <Notice>
          {locked}.{policy.file !== null && ' Deleting the file deletes the policy.'}
        </Notice>
      )}
      <ModeChips policy={policy} locked={locked} />
      <div className="halves">
        <TextOfPolicy
          policy={policy}
          draft={draft}
          isLocked={locked !== undefined}
          version={shown}
          onDraft={(next) => {
            setDraft(next)
            if (shown !== undefined) void navigate({ search: {}, replace: true, resetScroll: false })
          }}
        />
        <div className="stack">
          {mayOperate && <Backtest text={draft?.text ?? policy.text} />}
          <DataTable
            title="Rules"
            note="The strictest match decides."
            columns={[
              { name: 'Decision', kind: 'word', cell: ({ decision }) => decision },
              { name: 'Rule', cell: ({ title }) => <HostileText text={title} max={200} /> },
              {
                name: 'Last 24 h',
                kind: 'word',
                cell: ({ title }) => decisionsText(counts.get(title)) ?? <span className="quiet">none</span>,
              },
            ]}
            rows={policy.flow === 'off' ? policy.rules : [...policy.rules, { title: 'flow', decision: 'ask' as const }]}
            rowKey={({ title }) => title}
            empty="No rules: only the flow and the default decide."
            isStacked={false}
          />
          <Versions
            versions={policy.versions}
            current={shown ?? policy.version}
            link={(each) => (
              <Link
                from="/policies/$id"
                search={{ version: each === policy.version ? undefined : each }}
                aria-current={each === (shown ?? policy.version) ? 'true' : undefined}
                replace
                resetScroll={false}
              >
                v{each}
              </Link>
            )}
          />
        </div>
      </div>
      {isDeleting && (
        <ChangeDialog
          changes={[queryKeys.policies]}
          title={
            <>
              Delete <HostileText text={policy.title} max={120} />?
            </>
          }
          submit="Delete policy"
          kind="act"
          send={async () => {
            await call('deletePolicy', { params: { id: policy.id } })
            // Navigates first: otherwise this page would request the deleted policy again.
            await navigate({ to: '/policies' })
            return 'Policy deleted.'
          }}
          onClose={() => setDeleting(false)}
        >
          <p>The agents stop deciding by it. What it decided stays in their events.</p>
        </ChangeDialog>
      )}
    </Screen>
  )
}

/** One policy: its text, its mode and its versions. */
export function PolicyPage() {
  const { id } = route.useParams()
  const { data, error } = useQuery(policyQuery(id))
  // The key resets the editor when another policy is opened.
  if (data) return <OpenPolicy key={id} policy={data} />
  return (
    <Screen title="Policy" lead={<Link to="/policies">All policies</Link>}>
      <Fault of={error} />
    </Screen>
  )
}
