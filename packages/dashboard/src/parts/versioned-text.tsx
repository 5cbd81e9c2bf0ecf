import type { ReactNode } from 'react'
import { Button } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { Fault, Notice, Panel } from '../ui/panel.tsx'
import { DataTable } from '../ui/table.tsx'
import { Time } from '../ui/time.tsx'
import { Snippet } from './snippet.tsx'

interface Version {
  version: number
  created_at: string
  created_by: string | null
}

interface VersionsProps {
  versions: readonly Version[]
  /** The version that is shown. */
  current: number
  /** Link that shows a version. */
  link(version: number): ReactNode
}

/** The saved versions of a document. */
export function Versions({ versions, current, link }: VersionsProps) {
  return (
    <DataTable
      title="Versions"
      note="Each saved change of the text is a version."
      columns={[
        { name: 'Version', cell: ({ version }) => link(version) },
        { name: 'Saved', kind: 'number', cell: ({ created_at }) => <Time at={created_at} /> },
        {
          name: 'By',
          cell: ({ created_by }) => (created_by === null ? 'file' : <HostileText text={created_by} max={60} />),
        },
      ]}
      rows={versions}
      rowKey={({ version }) => version}
      at={versions.findIndex(({ version }) => version === current)}
      isStacked={false}
    />
  )
}

/** Unsaved text of the editor, and the version that it is based on. */
export interface Draft {
  text: string
  version: number
}

interface VersionedTextProps {
  /** What the document is, such as Rule. */
  name: string
  saved: Draft
  draft: Draft | undefined
  isLocked: boolean
  /** An earlier version to show instead, and its text once it is loaded. */
  version: number | undefined
  earlier: { text: string } | undefined
  error: unknown
  onDraft(draft: Draft | undefined): void
  /** The editor, with a button beside Save. */
  editor(onChange: (text: string) => void, discard: ReactNode): ReactNode
}

/** The text of a document: in the editor, or to read if it is locked or an earlier version. */
export function VersionedText(props: VersionedTextProps) {
  const { name, saved, draft, isLocked, version, earlier, error, onDraft, editor } = props
  const edit = (next: string, base = draft?.version ?? saved.version) =>
    onDraft(next === saved.text ? undefined : { text: next, version: base })
  if (isLocked || version !== undefined) {
    const text = version === undefined ? saved.text : earlier?.text
    if (error) return <Fault of={error} />
    if (text === undefined) return <p className="quiet">Loading version {version}…</p>
    return (
      <Panel
        title={version === undefined ? name : `Version ${version}`}
        end={!isLocked && <Button onClick={() => edit(text, saved.version)}>Edit this text</Button>}
      >
        <Snippet label="YAML or JSON, as saved" text={text} />
      </Panel>
    )
  }
  return (
    <div className="stack">
      {draft && draft.version !== saved.version && (
        <Notice>
          Version {saved.version} was saved after you began to edit version {draft.version}. Saving replaces it.
        </Notice>
      )}
      {editor(
        edit,
        <Button disabled={!draft} onClick={() => onDraft(undefined)}>
          Discard changes
        </Button>,
      )}
    </div>
  )
}
