import { useQuery } from '@tanstack/react-query'
import { useChange } from '../data/change.ts'
import { call } from '../data/client.ts'
import { queryKeys } from '../data/query-keys.ts'
import { useMayOperate } from '../data/session.ts'
import { viewsQuery } from '../data/views.ts'
import { Button } from '../ui/button.tsx'
import { FormDialog } from '../ui/dialog.tsx'
import { Check, TextField } from '../ui/field.tsx'
import { HostileText } from '../ui/hostile-text.tsx'
import css from './views-dialog.module.css'

interface ViewsDialogProps {
  screen: 'fleet' | 'events'
  query: string
  onOpen(view: { id: string; query: string }): void
  onClose(): void
}

export function ViewsDialog({ screen, query, onOpen, onClose }: ViewsDialogProps) {
  const mayShare = useMayOperate()
  const { data = [] } = useQuery(viewsQuery)
  const views = data.filter((saved) => saved.screen === screen)
  const { run, isBusy, fault } = useChange({ changes: [queryKeys.views] })
  return (
    <FormDialog
      title="Saved views"
      submit="Save view"
      isBusy={isBusy}
      fault={fault}
      onClose={onClose}
      onSubmit={(form) =>
        void run(async () => {
          const body = {
            name: String(form.get('name')),
            screen,
            query,
            ...(form.has('shared') ? { shared: true } : {}),
          }
          onOpen({ id: (await call('createView', { body })).id, query })
        })
      }
    >
      {views.length === 0 && (
        <p className="quiet">No saved views. A view saves the filters, order and groups of this screen.</p>
      )}
      <ul>
        {views.map((saved) => (
          <li key={saved.id} className={`row ${css.view}`}>
            <Button kind="plain" onClick={() => onOpen(saved)}>
              <HostileText text={saved.name} line max={80} />
            </Button>
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
              <Button
                disabled={isBusy}
                about={
                  <>
                    view <HostileText text={saved.name} max={80} />
                  </>
                }
                onClick={() => void run(() => call('deleteView', { params: { id: saved.id } }))}
              >
                Delete
              </Button>
            )}
          </li>
        ))}
      </ul>
      <TextField label="Save current filters as" name="name" isFirst required pattern=".*\S.*" maxLength={80} />
      {mayShare && <Check label="Share with everyone" name="shared" />}
    </FormDialog>
  )
}
