import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { getRouteApi, Link, useNavigate } from '@tanstack/react-router'
import { useState } from 'react'
import { Dialog } from '../parts/dialog.tsx'
import { HostileText } from '../parts/hostile-text.tsx'
import '../parts/list.css'
import { SeverityMark } from '../parts/marks.tsx'
import { Snippet } from '../parts/snippet.tsx'
import { Time } from '../parts/time.tsx'
import { plainText } from '../parts/unseen-characters.ts'
import { call, sentenceOf } from '../service/client.ts'
import { faultsOf, type Rule, ruleQuery, rulesKey, versionQuery } from '../service/rules.ts'
import { useMayOperate } from '../service/session.ts'
import { useTitle } from '../shell/title.ts'
import { Backtest } from './backtest.tsx'
import { Editor, useCheck } from './editor.tsx'
import { Exceptions, Versions } from './facts.tsx'
import { Firings } from './firings.tsx'
import { EnforceDialog, ModeButtons } from './mode-buttons.tsx'
import { modeOfText, testsText } from './rule-texts.ts'
import './rules.css'

const route = getRouteApi('/inside/rules/$id')

function DeleteDialog({ rule, onClose }: { rule: Rule; onClose(): void }) {
  const client = useQueryClient()
  const navigate = useNavigate()
  const remove = useMutation({
    mutationFn: () => call('deleteRule', { params: { id: rule.id } }),
    onSuccess: () => {
      // Navigates first: otherwise the rule's page would request the deleted rule again.
      void navigate({ to: '/rules' }).then(() => client.invalidateQueries({ queryKey: rulesKey }))
    },
  })
  return (
    <Dialog label="Delete the rule" onClose={onClose}>
      <h2>
        Delete “<HostileText text={rule.title} max={120} />
        ”?
      </h2>
      <p>
        From then on nothing is found by it. Its firings stay in the log of events, suspensions that it made stay as
        they are.
      </p>
      {remove.error && (
        <p role="alert" className="fault">
          <HostileText text={sentenceOf(remove.error)} max={600} />
        </p>
      )}
      <div className="foot">
        <button type="button" data-first onClick={onClose}>
          Keep it <kbd>Esc</kbd>
        </button>
        <button type="button" className="act" disabled={remove.isPending} onClick={() => remove.mutate()}>
          Delete the rule
        </button>
      </div>
    </Dialog>
  )
}

/** Unsaved text of the editor, and the version that it is based on. */
interface Draft {
  text: string
  version: number
}

function TextOfRule({
  rule,
  draft,
  onDraft,
}: {
  rule: Rule
  draft: Draft | undefined
  onDraft(draft: Draft | undefined): void
}) {
  const client = useQueryClient()
  const [isAsking, setAsking] = useState(false)
  const text = draft?.text ?? rule.text
  const check = useCheck(text, true)
  const store = useMutation({
    mutationFn: () => call('replaceRule', { params: { id: rule.id }, body: { rule: text } }),
    onSuccess: async () => {
      await client.invalidateQueries({ queryKey: rulesKey })
      onDraft(undefined)
    },
    onSettled: () => setAsking(false),
  })
  const isFit = check.check !== undefined && check.check.faults.length === 0
  const mode = modeOfText(text)
  const isSwitch = mode !== undefined && mode !== rule.mode
  return (
    <Editor
      text={text}
      check={check}
      refused={faultsOf(store.error)}
      onChange={(next) => {
        store.reset()
        onDraft(next === rule.text ? undefined : { text: next, version: draft?.version ?? rule.version })
      }}
    >
      {draft && draft.version !== rule.version && (
        <p className="rule-inner warning">
          Version {rule.version} was stored since you began with version {draft.version}: storing replaces it.
        </p>
      )}
      {draft && isSwitch && (
        <p className="rule-inner warning">The text says mode {mode}: storing it switches the rule.</p>
      )}
      {store.error && (
        <p role="alert" className="rule-inner fault">
          <HostileText text={sentenceOf(store.error)} max={600} />
        </p>
      )}
      <div className="rule-inner chips">
        <button
          type="button"
          className="go"
          disabled={!draft || !isFit || store.isPending}
          onClick={() => (isSwitch && mode === 'enforce' ? setAsking(true) : store.mutate())}
        >
          Store as version {rule.version + 1}
        </button>
        <button
          type="button"
          disabled={!draft}
          onClick={() => {
            store.reset()
            onDraft(undefined)
          }}
        >
          Undo the changes
        </button>
      </div>
      {isAsking && (
        <EnforceDialog
          rule={rule}
          isText
          isBusy={store.isPending}
          fault={null}
          onConfirm={() => store.mutate()}
          onClose={() => setAsking(false)}
        />
      )}
    </Editor>
  )
}

function ReadText({ label, text, onTake }: { label: string; text: string; onTake?: () => void }) {
  return (
    <section className="panel" aria-labelledby="rule-text">
      <header>
        <h2 id="rule-text">{label}</h2>
        {onTake && (
          <span className="end">
            <button type="button" onClick={onTake}>
              Edit this text
            </button>
          </span>
        )}
      </header>
      <Snippet label="YAML or JSON, as it was stored" text={text} />
    </section>
  )
}

function EarlierText({ id, version, onTake }: { id: string; version: number; onTake?: (text: string) => void }) {
  const { data, error } = useQuery(versionQuery(id, version))
  if (error) {
    return (
      <p role="alert" className="notice fault">
        {sentenceOf(error)}
      </p>
    )
  }
  if (!data) return <p className="quiet">Reading version {version}…</p>
  return <ReadText label={`Text of version ${version}`} text={data.text} onTake={onTake && (() => onTake(data.text))} />
}

/** Returns why the current user may not change the rule. */
function lockOf(rule: Rule, mayOperate: boolean): string | undefined {
  if (!mayOperate) return 'Your key has scope viewer: only operators and admins change rules'
  if (rule.file !== null) return `The rule is read from the file ${plainText(rule.file)}: change it there`
  return undefined
}

/** One rule: its text, its mode and its firings. */
export function RulePage() {
  const { id } = route.useParams()
  const { data, error } = useQuery(ruleQuery(id))
  const title = data ? plainText(data.title) : 'Rule'
  useTitle(title)
  // The key resets the editor when another rule is opened.
  if (data) return <OpenRule key={id} rule={data} />
  return (
    <div className="rows">
      <h1>Rule</h1>
      {error && (
        <p role="alert">
          <HostileText text={sentenceOf(error)} max={600} />
        </p>
      )}
      <p>
        <Link to="/rules">Open all rules</Link>
      </p>
    </div>
  )
}

function OpenRule({ rule }: { rule: Rule }) {
  const { days = 7, version } = route.useSearch()
  const navigate = route.useNavigate()
  const mayOperate = useMayOperate()
  const [draft, setDraft] = useState<Draft>()
  const [isDeleting, setDeleting] = useState(false)
  const { id, title, severity, document, file } = rule
  const locked = lockOf(rule, mayOperate)
  const shown = version === rule.version ? undefined : version
  const show = (change: { days?: typeof days; version?: number }) =>
    void navigate({ search: (before) => ({ ...before, ...change }), replace: true, resetScroll: false })
  return (
    <div className="rows">
      <div>
        <div className="head">
          <h1>
            <HostileText text={title} max={256} />
          </h1>
          <SeverityMark severity={severity} />
          <span className="quiet">
            v{rule.version}, {testsText(document)}
          </span>
          <span className="end">
            <button
              type="button"
              className="danger"
              disabled={locked !== undefined}
              title={locked}
              onClick={() => setDeleting(true)}
            >
              Delete…
            </button>
          </span>
        </div>
        {document.description !== undefined && (
          <p className="quiet lead">
            <HostileText text={document.description} max={600} />
          </p>
        )}
        <p className="quiet lead">
          {file === null ? 'Stored over the interface' : 'Read from a file'}, changed <Time at={rule.changed_at} />
          {rule.changed_by !== null && (
            <>
              {' by '}
              <HostileText text={rule.changed_by} max={60} />
            </>
          )}
          . {rule.last_fired_at === null ? 'It has not fired.' : 'Last firing '}
          {rule.last_fired_at !== null && <Time at={rule.last_fired_at} />}
        </p>
      </div>
      {locked !== undefined && (
        <p className="notice">
          {locked}.{file !== null && ' Removing the file deletes the rule.'}
        </p>
      )}
      <ModeButtons rule={rule} locked={locked} isChanged={draft !== undefined} />
      <div className="rule-columns">
        {shown !== undefined ? (
          <EarlierText
            id={id}
            version={shown}
            onTake={
              locked === undefined
                ? (text) => {
                    setDraft(text === rule.text ? undefined : { text, version: rule.version })
                    show({ version: undefined })
                  }
                : undefined
            }
          />
        ) : locked === undefined ? (
          <TextOfRule rule={rule} draft={draft} onDraft={setDraft} />
        ) : (
          <ReadText label="Rule" text={rule.text} />
        )}
        <div className="rows">
          {mayOperate && <Backtest text={draft?.text ?? rule.text} />}
          <Exceptions document={document} />
          <Versions rule={rule} shown={shown} />
        </div>
      </div>
      <Firings id={id} days={days} onDays={(next) => show({ days: next })} />
      <p>
        <Link to="/rules">Open all rules</Link>
      </p>
      {isDeleting && <DeleteDialog rule={rule} onClose={() => setDeleting(false)} />}
    </div>
  )
}
