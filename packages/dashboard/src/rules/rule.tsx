import { useQuery } from '@tanstack/react-query'
import { getRouteApi, Link } from '@tanstack/react-router'
import { type RuleMode, ruleModes } from '@wardline/contract'
import { useState } from 'react'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { type Rule, ruleQuery, versionQuery } from '../data/rules.ts'
import { useMayOperate } from '../data/session.ts'
import { ChangeDialog } from '../parts/change-dialog.tsx'
import { SeverityMark } from '../parts/marks.tsx'
import { type Draft, VersionedText, Versions } from '../parts/versioned-text.tsx'
import { Button, Chip } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'
import { Fault, Notice, Screen } from '../ui/panel.tsx'
import { DataTable } from '../ui/table.tsx'
import { Time, useNow } from '../ui/time.tsx'
import { plainText } from '../ui/unseen-characters.ts'
import { Editor } from './editor.tsx'
import { Backtest, Firings } from './firings.tsx'
import { modeNames, modeSentences, testsText } from './rule-texts.ts'
import css from './rules.module.css'

const EnforceDialog = lazyDialog(async () => (await import('./enforce-dialog.tsx')).EnforceDialog)

const route = getRouteApi('/inside/rules/$id')

interface ModeChipsProps {
  rule: Rule
  /** Why the mode cannot be changed. */
  locked: string | undefined
  /** Whether the editor's text differs from the saved one. */
  isChanged: boolean
}

/** The rule's mode, from the least effect to the most. */
function ModeChips({ rule, locked, isChanged }: ModeChipsProps) {
  const [isAsking, setAsking] = useState(false)
  const { isBusy, fault, run } = useChange({ changes: [queryKeys.rules] })
  const change = (mode: RuleMode) =>
    run(async () => {
      await call('setRuleMode', { params: { id: rule.id }, body: { mode } })
      setAsking(false)
      return `Mode set to ${mode}.`
    })
  function press(mode: RuleMode) {
    if (mode === rule.mode) return
    if (mode === 'enforce') setAsking(true)
    else void change(mode)
  }
  return (
    <>
      <div className="chips" role="group" aria-label="Mode">
        {ruleModes.map((mode) => {
          const unsaved =
            isChanged && mode !== 'observe' ? 'Save the text first: the mode applies to the saved rule' : undefined
          const reason = locked ?? unsaved
          return (
            <Chip
              key={mode}
              isOn={mode === rule.mode}
              disabled={reason !== undefined || isBusy}
              title={reason ?? modeSentences[mode]}
              onClick={() => press(mode)}
            >
              <span className={mode === 'enforce' && !reason ? 'breach' : ''}>
                {modeNames[mode]}
                {mode === 'enforce' && rule.mode !== 'enforce' && '…'}
              </span>
            </Chip>
          )
        })}
        <span className="quiet">{modeSentences[rule.mode]}</span>
      </div>
      {!isAsking && <Fault of={fault} />}
      {isAsking && (
        <EnforceDialog
          rule={rule}
          isBusy={isBusy}
          fault={fault}
          onConfirm={() => void change('enforce')}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  )
}

/** The rule's exceptions, with reason and expiry. */
function Exceptions({ exceptions = [] }: Pick<Rule['document'], 'exceptions'>) {
  const now = useNow()
  return (
    <DataTable
      title="Exceptions"
      columns={[
        {
          name: 'Agents',
          cell: ({ who: { instances = [], tags = [] } }) =>
            [...instances, ...tags.map((tag) => `tag ${tag}`)].map((name) => (
              <div key={name}>
                <HostileText text={name} max={130} />
              </div>
            )),
        },
        { name: 'Reason', cell: ({ reason }) => <HostileText text={reason} max={300} /> },
        {
          name: 'Until',
          kind: 'number',
          cell: ({ until }) => (
            <>
              <Time at={new Date(until).toISOString()} />
              {Date.parse(until) <= now && <div className="quiet">expired</div>}
            </>
          ),
        },
      ]}
      rows={exceptions}
      rowKey={(exception) => exceptions.indexOf(exception)}
      empty={
        <>
          No exceptions. Add agents or tags with a reason and an end under <code>exceptions</code> in the text.
        </>
      }
    />
  )
}

interface TextProps {
  rule: Rule
  draft: Draft | undefined
  isLocked: boolean
  version: number | undefined
  onDraft(draft: Draft | undefined): void
}

function TextOfRule({ rule, draft, version, onDraft, isLocked }: TextProps) {
  const { data: earlier, error } = useQuery({
    ...versionQuery(rule.id, version ?? rule.version),
    enabled: version !== undefined,
  })
  const text = draft?.text ?? rule.text
  return (
    <VersionedText
      name="Rule"
      saved={rule}
      draft={draft}
      isLocked={isLocked}
      version={version}
      earlier={earlier}
      error={error}
      onDraft={onDraft}
      editor={(onChange, discard) => (
        <Editor
          text={text}
          rule={rule}
          saveName={`Save as version ${rule.version + 1}`}
          isChanged={draft !== undefined}
          save={async () => {
            await call('replaceRule', { params: { id: rule.id }, body: { rule: text } })
            return 'Rule saved.'
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

/** One rule: its text, its mode and its firings. */
export function RulePage() {
  const { id } = route.useParams()
  const { data, error } = useQuery(ruleQuery(id))
  // The key resets the editor when another rule is opened.
  if (data) return <OpenRule key={id} rule={data} />
  return (
    <Screen title="Rule" lead={<Link to="/rules">All rules</Link>}>
      <Fault of={error} />
    </Screen>
  )
}

function Origin({ rule }: { rule: Rule }) {
  const { version, document, file, changed_at, changed_by, last_fired_at, lists = [] } = rule
  return (
    <>
      {document.description !== undefined && (
        <>
          <HostileText text={document.description} max={600} />
          <br />
        </>
      )}
      v{version}, {testsText(document)} · {file === null ? 'API' : 'file'} · changed <Time at={changed_at} />
      {changed_by !== null && (
        <>
          {' by '}
          <HostileText text={changed_by} max={60} />
        </>
      )}
      {' · '}
      {last_fired_at === null ? (
        'never fired'
      ) : (
        <>
          last firing <Time at={last_fired_at} />
        </>
      )}
      {' · '}
      {lists.map((name) => (
        <span key={name}>
          list{' '}
          <Link to="/rules/lists/$name" params={{ name }}>
            {name}
          </Link>
          {' · '}
        </span>
      ))}
      <Link to="/rules">All rules</Link>
    </>
  )
}

/** Returns why the current user may not change the rule. */
function lockOf(file: string | null, mayOperate: boolean): string | undefined {
  if (!mayOperate) return 'Changing rules requires a key with scope operator or admin'
  return file === null ? undefined : `This rule is loaded from the file ${plainText(file)}: edit the file to change it`
}

function OpenRule({ rule }: { rule: Rule }) {
  const { days = 7, version } = route.useSearch()
  const navigate = route.useNavigate()
  const mayOperate = useMayOperate()
  const [draft, setDraft] = useState<Draft>()
  const [isDeleting, setDeleting] = useState(false)
  const locked = lockOf(rule.file, mayOperate)
  const shown = version === rule.version ? undefined : version
  const show = (change: { days?: typeof days; version?: number | undefined }) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true, resetScroll: false })
  return (
    <Screen
      title={plainText(rule.title)}
      heading={
        <>
          <HostileText text={rule.title} max={256} /> <SeverityMark severity={rule.severity} />
        </>
      }
      lead={<Origin rule={rule} />}
      actions={
        <Button kind="danger" disabled={locked !== undefined} title={locked} onClick={() => setDeleting(true)}>
          Delete…
        </Button>
      }
    >
      {locked !== undefined && (
        <Notice>
          {locked}.{rule.file !== null && ' Deleting the file deletes the rule.'}
        </Notice>
      )}
      <ModeChips rule={rule} locked={locked} isChanged={draft !== undefined} />
      <div className={css.columns}>
        <TextOfRule
          rule={rule}
          draft={draft}
          isLocked={locked !== undefined}
          version={shown}
          onDraft={(next) => {
            setDraft(next)
            if (shown !== undefined) show({ version: undefined })
          }}
        />
        <div className="stack">
          {mayOperate && <Backtest text={draft?.text ?? rule.text} />}
          <Exceptions exceptions={rule.document.exceptions} />
          <Versions
            versions={rule.versions}
            current={shown ?? rule.version}
            link={(each) => (
              <Link
                from="/rules/$id"
                search={(before) => ({ ...before, version: each === rule.version ? undefined : each })}
                aria-current={each === (shown ?? rule.version) ? 'true' : undefined}
                replace
                resetScroll={false}
              >
                v{each}
              </Link>
            )}
          />
        </div>
      </div>
      <Firings id={rule.id} days={days} onDays={(next) => show({ days: next })} />
      {isDeleting && (
        <ChangeDialog
          changes={[queryKeys.rules]}
          title={
            <>
              Delete <HostileText text={rule.title} max={120} />?
            </>
          }
          submit="Delete rule"
          kind="act"
          send={async () => {
            await call('deleteRule', { params: { id: rule.id } })
            // Navigates first: otherwise this page would request the deleted rule again.
            await navigate({ to: '/rules' })
            return 'Rule deleted.'
          }}
          onClose={() => setDeleting(false)}
        >
          <p>The rule stops firing. Its past firings and the suspensions that it made stay.</p>
        </ChangeDialog>
      )}
    </Screen>
  )
}
