-- view: RevenueByCity
SELECT c.city, sum(o.amount) AS revenue, count(*) AS orders
FROM Orders o JOIN Customers c ON c.id = o.customer
GROUP BY c.city;

-- view: LatePayments
SELECT o.id, c.name, c.city, o.amount, o.due_at
FROM Orders o JOIN Customers c ON c.id = o.customer
WHERE o.id NOT IN (SELECT order_id FROM Payments) AND o.due_at <= clock();
