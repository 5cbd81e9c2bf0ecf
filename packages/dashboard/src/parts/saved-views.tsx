import { useMutation, useQuery, useQueryClient } from '@tanstack/react-query'
import { useRouter } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { call, sentenceOf } from '../service/client.ts'
import { useMayOperate } from '../service/session.ts'
import { viewsQuery } from '../service/views.ts'
import { Dialog } from './dialog.tsx'
import { HostileText } from './hostile-text.tsx'

const maxName = 80

/** Returns the address's query without the view's name and the open drawer. */
function currentQuery(searchStr: string): string {
  const query = new URLSearchParams(searchStr)
  for (const name of ['view', 'open']) query.delete(name)
  return query.toString()
}

/** Saves the address's query under a name and links back to it. The open view is in the address. */
export function SavedViews({ screen, view }: { screen: 'fleet' | 'events'; view: string | undefined }) {
  const router = useRouter()
  const { data: views = [] } = useQuery(viewsQuery)
  const [isOpen, setOpen] = useState(false)
  const query = currentQuery(router.state.location.searchStr)
  const current = views.find(({ id }) => id === view)
  const pathOf = (saved: { id: string; query: string }) =>
    `/${screen}?${saved.query}${saved.query ? '&' : ''}view=${saved.id}`
  useEffect(() => {
    // A link may contain only the view's name.
    if (current && current.query !== '' && query === '') router.history.replace(pathOf(current))
  })
  return (
    <>
      <button type="button" className="chip" aria-pressed={current !== undefined} onClick={() => setOpen(true)}>
        {current ? (
          <>
            View: <HostileText text={current.name} line max={40} />
            {current.query === query ? '' : ' (changed)'}
          </>
        ) : (
          'Views'
        )}
      </button>
      {isOpen && (
        <ViewsDialog
          views={views.filter((saved) => saved.screen === screen)}
          screen={screen}
          query={query}
          onOpen={(saved) => {
            setOpen(false)
            router.history.push(pathOf(saved))
          }}
          onClose={() => setOpen(false)}
        />
      )}
    </>
  )
}

type Saved = { id: string; name: string; query: string; own: boolean; shared: boolean; owner: string }

function ViewsDialog({
  views,
  screen,
  query,
  onOpen,
  onClose,
}: {
  views: readonly Saved[]
  screen: string
  query: string
  onOpen(view: Saved): void
  onClose(): void
}) {
  const client = useQueryClient()
  const mayShare = useMayOperate()
  const [name, setName] = useState('')
  const [isShared, setShared] = useState(false)
  const change = useMutation({
    mutationFn: async (remove?: string) => {
      if (remove !== undefined) await call('deleteView', { params: { id: remove } })
      else {
        const made = await call('createView', { body: { name, screen, query, ...(isShared ? { shared: true } : {}) } })
        setName('')
        return made.id
      }
    },
    onSuccess: (id) => {
      if (id !== undefined) onOpen({ id, name, query, own: true, shared: isShared, owner: '' })
    },
    onSettled: () => client.invalidateQueries({ queryKey: viewsQuery.queryKey }),
  })
  return (
    <Dialog label="Saved views" onClose={onClose}>
      <h2>Saved views</h2>
      {views.length === 0 && <p className="quiet">None yet. A view keeps filters, order and groups of this screen.</p>}
      <ul className="views">
        {views.map((saved) => (
          <li key={saved.id}>
            <button type="button" className="plain" onClick={() => onOpen(saved)}>
              <HostileText text={saved.name} line max={80} />
            </button>
            <span className="quiet">
              {saved.shared ? 'shared' : 'private'}
              {!saved.own && (
                <>
                  {' by '}
                  <HostileText text={saved.owner} max={40} />
                </>
              )}
            </span>
            {saved.own && (
              <button type="button" disabled={change.isPending} onClick={() => change.mutate(saved.id)}>
                Delete
                <span className="only-read">
                  {' view '}
                  <HostileText text={saved.name} max={80} />
                </span>
              </button>
            )}
          </li>
        ))}
      </ul>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          change.mutate(undefined)
        }}
      >
        <label className="field">
          <span>Save what is shown now as</span>
          <input
            data-first
            required
            maxLength={maxName}
            value={name}
            onChange={(event) => setName(event.target.value)}
          />
        </label>
        {mayShare && (
          <label className="choice">
            <input type="checkbox" checked={isShared} onChange={() => setShared(!isShared)} /> Every reader sees it
          </label>
        )}
        {change.error && (
          <p role="alert" className="fault">
            {sentenceOf(change.error)}
          </p>
        )}
        <div className="foot">
          <button type="button" onClick={onClose}>
            Close <kbd>Esc</kbd>
          </button>
          <button type="submit" className="go" disabled={name.trim() === '' || change.isPending}>
            Save view
          </button>
        </div>
      </form>
    </Dialog>
  )
}
