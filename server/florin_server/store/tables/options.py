"""How many options are kept for whom; conventions as in `tables`."""

from florin_server.store.tables.fields import BY_KEY, Base, number, text_


class OptionCountRow(Base, table=True):
    """How many options of a payment were stored for one caller; for all callers if that is empty.

    `origin` is a hash that means nothing outside its payment.
    """

    __tablename__ = "option_count"
    __table_args__ = (BY_KEY,)

    payment_id: str = text_(key=True)
    origin: str = text_(key=True)
    n: int = number()
