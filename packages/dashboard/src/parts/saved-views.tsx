import { useQuery } from '@tanstack/react-query'
import { useRouter } from '@tanstack/react-router'
import { useEffect, useState } from 'react'
import { viewsQuery } from '../data/views.ts'
import { Chip } from '../ui/button.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import { lazyDialog } from '../ui/lazy-dialog.tsx'

const ViewsDialog = lazyDialog(async () => (await import('./views-dialog.tsx')).ViewsDialog)

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
      <Chip isOn={current !== undefined} onClick={() => setOpen(true)}>
        {current ? (
          <>
            View: <HostileText text={current.name} line max={40} />
            {current.query === query ? '' : ' (changed)'}
          </>
        ) : (
          'Views'
        )}
      </Chip>
      {isOpen && (
        <ViewsDialog
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
