#include "flights.h"

void kw_flights_join(
	struct kw_flights *flights, struct kw_question *leader, struct kw_question *question)
{
	question->next = NULL;
	if (leader->joined)
		leader->joined_last->next = question;
	else
		leader->joined = question;
	leader->joined_last = question;
	flights->joined++;
}
